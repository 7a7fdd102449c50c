"""A LogGP-style model of the exchange: when every reader has posted, sent, received and finished
each round, from who sends how much to whom.

It keeps, for each reader, the time at which its MPI thread and its network card are free, in both
directions. A message costs the MPI thread of either side `message_s` and `byte_s` a byte, and the
wire its bytes over the rate; a round is complete where the last message is in, `latency_s` after it
was sent and `test_s` before it is seen. Two rounds are in flight. Messages of a
round share the link evenly, so that a reader's are all done when the last is. (LogGP: Alexandrov
and others, SPAA 1995; the o of both sides is message_s, G is 1/rate, and the gap g is never longer
than o.)
"""
import dataclasses
import pathlib

import numpy

LANES = 2
LATEST_FEW = 64


@dataclasses.dataclass(frozen=True)
class Network:
    gbit: float  # a reader's link, each direction
    latency_s: float
    message_s: float  # of the MPI thread, for each message sent and each received
    byte_s: float  # of the MPI thread, for each byte sent and each received
    test_s: float  # from a round's end until it is seen
    share: float  # of the link that all-to-all traffic reaches with messages of any size

    @property
    def bytes_per_s(self):
        return self.gbit * 1e9 / 8 * self.share


def load(path):
    """[steps][from][to] records."""
    data = pathlib.Path(path).read_bytes()
    if data[:8] != b"PSSCHED1":
        raise ValueError(f"{path}: not a schedule")
    readers, steps = numpy.frombuffer(data, "<u4", 2, 8)
    return numpy.frombuffer(data, numpy.uint8, offset=16).reshape(steps, readers, readers)


class Traffic:
    """Who sends how many records to whom in a round."""

    def __init__(self, records):
        self.pairs = records > 0  # [from][to]
        self.pairs_back = numpy.ascontiguousarray(self.pairs.T)  # [to][from]
        self.sends, self.receives = self.pairs.sum(1), self.pairs.sum(0)
        self.out_records, self.in_records = records.sum(1), records.sum(0)


def rounds_of(schedule, steps_per_round, stripes_per_step, count, random):
    """`count` rounds of consecutive steps; where the schedule is too short, of its steps again with
    the readers renumbered. Stripes of steps are drawn: each record with the same chance."""
    rounds = []
    for index in range(count):
        records = numpy.zeros(schedule.shape[1:], numpy.int64)
        for step in range(index * steps_per_round, (index + 1) * steps_per_round):
            turn = 0 if step < len(schedule) else int(random.integers(len(records)))
            records += numpy.roll(schedule[step % len(schedule)], (turn, turn), (0, 1))
        if stripes_per_step > 1:
            records = random.binomial(records, 1 / stripes_per_step)
        rounds.append(Traffic(records))
    return rounds


def latest(pairs, times):
    """For each column, the latest of the times of the rows that are set in it; 0 where none is. One
    of the latest few nearly always is."""
    order = numpy.argsort(-times)[:LATEST_FEW]
    few = pairs[order]
    first = few.argmax(0)
    if few[first, numpy.arange(len(first))].all():
        return times[order[first]]
    return numpy.where(pairs, times[:, None], 0).max(0)


class Round:
    """What a round costs each reader, and when it happens."""

    def __init__(self, traffic, record_bytes, network):
        self.pairs, self.pairs_back = traffic.pairs, traffic.pairs_back
        self.out_bytes = traffic.out_records * float(record_bytes)
        in_bytes = traffic.in_records * float(record_bytes)
        self.out_s = self.out_bytes / network.bytes_per_s
        self.in_s = in_bytes / network.bytes_per_s
        self.post_s = traffic.sends * network.message_s + self.out_bytes * network.byte_s
        self.receive_s = traffic.receives * network.message_s + in_bytes * network.byte_s

    def latest_sender(self, times):
        """For each reader, the latest of its senders' times."""
        return latest(self.pairs, times)

    def latest_receiver(self, times):
        """For each reader, the latest of the times of those it sends to."""
        return latest(self.pairs_back, times)


def post(round_, state, network):
    begin = state["thread"]
    state["thread"] = begin + round_.post_s
    round_.posted = state["thread"]
    start = numpy.maximum(state["out"], begin + numpy.minimum(network.message_s, round_.post_s))
    round_.sent = numpy.maximum(start + round_.out_s, round_.posted)
    state["out"] = round_.sent
    round_.begin = begin


def complete(round_, state, network):
    first = numpy.maximum(round_.begin, round_.begin.min() + network.message_s)
    received = numpy.maximum(numpy.maximum(state["in"], first) + round_.in_s,
                             round_.latest_sender(round_.sent)) + network.latency_s
    received = numpy.where(round_.in_s > 0, received, round_.posted)
    state["in"] = received - network.latency_s
    sends_done = numpy.maximum(round_.sent, round_.latest_receiver(received))
    busy = state["thread"] + round_.receive_s
    state["thread"] = numpy.maximum(numpy.maximum(busy, received), sends_done) + network.test_s


def run(traffic, record_bytes, network):
    """(seconds until the slowest reader is done, bytes that a reader sends on average)"""
    rounds = [Round(each, record_bytes, network) for each in traffic]
    state = {name: numpy.zeros(len(rounds[0].out_bytes)) for name in ("thread", "out", "in")}
    posted = 0
    for index, round_ in enumerate(rounds):
        while posted < len(rounds) and posted < index + LANES:
            post(rounds[posted], state, network)
            posted += 1
        complete(round_, state, network)
    return float(state["thread"].max()), float(sum(each.out_bytes.mean() for each in rounds))


def rate_share(traffic, record_bytes, network):
    """What a reader sends of what its link could carry, 0 to 1."""
    seconds, sent = run(traffic, record_bytes, network)
    return sent / seconds / (network.gbit * 1e9 / 8)
