/* See date.h. */
#include "base/date.h"

#include <stdio.h>
#include <string.h>

enum { DAY = 86400, MOST_YEAR = 9999 };

/* The last day of the Julian calendar, and the first one of the Gregorian one. */
enum { REFORM_YEAR = 1582, REFORM_MONTH = 10, LAST_JULIAN = 4, FIRST_GREGORIAN = 15 };

/* Days before 1970-01-01, from a year 0 that begins with March. A Julian date is as many days from
 * the Gregorian 1970-01-01 as the two calendars say. */
enum { GREGORIAN_EPOCH = 719468, JULIAN_EPOCH = 719470 };

/* 1970-01-01 of the Julian calendar is 13 days behind that of the Gregorian one. */
enum { JULIAN_DELAY = 13 };

bool date_calendar_find(const char *name, enum date_calendar *ret_calendar)
{
    static const struct {
        const char *name;
        enum date_calendar calendar;
    } names[] = {{"", CALENDAR_STANDARD},          {"standard", CALENDAR_STANDARD},
                 {"gregorian", CALENDAR_STANDARD}, {"proleptic_gregorian", CALENDAR_GREGORIAN},
                 {"julian", CALENDAR_JULIAN},      {"noleap", CALENDAR_NOLEAP},
                 {"365_day", CALENDAR_NOLEAP},     {"all_leap", CALENDAR_ALL_LEAP},
                 {"366_day", CALENDAR_ALL_LEAP},   {"360_day", CALENDAR_360_DAY}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0) {
            *ret_calendar = names[i].calendar;
            return true;
        }
    return false;
}

bool date_calendars_agree(enum date_calendar a, enum date_calendar b)
{
    return a == b || (a <= CALENDAR_GREGORIAN && b <= CALENDAR_GREGORIAN);
}

/* Days
 * ---------------------------------------------------------------------------------------------- */

static bool is_reformed(enum date_calendar calendar, int year, int month, int day)
{
    if (calendar != CALENDAR_STANDARD)
        return calendar != CALENDAR_JULIAN;
    return year != REFORM_YEAR     ? year > REFORM_YEAR
           : month != REFORM_MONTH ? month > REFORM_MONTH
                                   : day > LAST_JULIAN;
}

static bool is_leap(enum date_calendar calendar, int year)
{
    if (calendar == CALENDAR_NOLEAP || calendar == CALENDAR_ALL_LEAP)
        return calendar == CALENDAR_ALL_LEAP;
    bool is_julian = !is_reformed(calendar, year, 1, 1);
    return year % 4 == 0 && (is_julian || year % 100 != 0 || year % 400 == 0);
}

static int month_length(enum date_calendar calendar, int year, int month)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (calendar == CALENDAR_360_DAY)
        return 30;
    return lengths[month - 1] + (month == 2 && is_leap(calendar, year));
}

static bool is_date(enum date_calendar calendar, int year, int month, int day)
{
    if (year < 1 || year > MOST_YEAR || month < 1 || month > 12 || day < 1 ||
        day > month_length(calendar, year, month))
        return false;
    return calendar != CALENDAR_STANDARD || year != REFORM_YEAR || month != REFORM_MONTH ||
           day <= LAST_JULIAN || day >= FIRST_GREGORIAN;
}

/* A year begins with March here, so that the 29th of February is its last day. */
static int64_t real_days(enum date_calendar calendar, int year, int month, int day)
{
    int64_t y = year - (month <= 2), m = month + (month > 2 ? -3 : 9);
    int64_t days = y * 365 + y / 4 + (153 * m + 2) / 5 + day - 1;
    if (is_reformed(calendar, year, month, day))
        return days - y / 100 + y / 400 - GREGORIAN_EPOCH;
    return days - JULIAN_EPOCH - (calendar == CALENDAR_JULIAN ? JULIAN_DELAY : 0);
}

static int64_t days_of(enum date_calendar calendar, int year, int month, int day)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int64_t years = year - 1970;
    switch (calendar) {
    case CALENDAR_NOLEAP:
        return years * 365 + before[month - 1] + day - 1;
    case CALENDAR_ALL_LEAP:
        return years * 366 + before[month - 1] + (month > 2) + day - 1;
    case CALENDAR_360_DAY:
        return years * 360 + (int64_t)(month - 1) * 30 + day - 1;
    default:
        return real_days(calendar, year, month, day);
    }
}

bool date_days(enum date_calendar calendar, int year, int month, int day, int64_t *ret_days)
{
    if (!is_date(calendar, year, month, day))
        return false;
    *ret_days = days_of(calendar, year, month, day);
    return true;
}

/* Texts
 * ---------------------------------------------------------------------------------------------- */

/* What a text says: `count` of the numbers, of which the others are the least ones. */
struct parts {
    int numbers[6]; /* year, month, day, hour, minute, second */
    int count;
};

/* Exactly `digits` digits at *at, which moves on. */
static bool take_digits(const char **at, const char *end, int digits, int *ret_number)
{
    int number = 0;
    for (int i = 0; i < digits; i++, (*at)++) {
        if (*at == end || **at < '0' || **at > '9')
            return false;
        number = 10 * number + (**at - '0');
    }
    *ret_number = number;
    return true;
}

/* What may stand behind a time: nothing, a fraction of zeros behind seconds, and a name of UTC. */
static bool is_tail(const char *at, const char *end, int count)
{
    if (count == 6 && end - at > 1 && *at == '.') {
        const char *fraction = ++at;
        while (at < end && *at == '0')
            at++;
        if (at == fraction)
            return false;
    }
    size_t left = (size_t)(end - at);
    return left == 0 || (count > 3 && ((left == 1 && *at == 'Z') ||
                                       (left == 6 && memcmp(at, "+00:00", 6) == 0)));
}

static bool read_parts(const char *text, size_t length, struct parts *ret)
{
    static const char marks[] = {0, '-', '-', 'T', ':', ':'};
    static const int lengths[] = {4, 2, 2, 2, 2, 2}, lows[] = {1, 1, 1, 0, 0, 0};
    static const int highs[] = {MOST_YEAR, 12, 31, 23, 59, 59};
    struct parts parts = {.numbers = {1, 1, 1, 0, 0, 0}};
    const char *at = text, *end = text + length;
    for (int i = 0; i < 6; i++) {
        bool follows = at < end && (*at == marks[i] || (i == 3 && *at == ' '));
        if (i > 0 && !follows)
            break;
        at += i > 0;
        if (!take_digits(&at, end, lengths[i], &parts.numbers[i]) || parts.numbers[i] < lows[i] ||
            parts.numbers[i] > highs[i])
            return false;
        parts.count++;
    }
    *ret = parts;
    return is_tail(at, end, parts.count);
}

/* One more of the last number that the text says: the next year, month, day, ... */
static int64_t end_of(enum date_calendar calendar, const struct parts *parts, int64_t begin)
{
    static const int seconds[] = {0, 0, DAY, 3600, 60, 1};
    int year = parts->numbers[0], month = parts->numbers[1];
    if (parts->count > 2)
        return begin + seconds[parts->count - 1];
    if (parts->count == 1 || month == 12)
        return DAY * days_of(calendar, year + 1, 1, 1);
    return DAY * days_of(calendar, year, month + 1, 1);
}

bool date_parse(enum date_calendar calendar, const char *text, size_t length,
                struct date_period *ret_period)
{
    struct parts parts;
    int64_t days;
    if (!read_parts(text, length, &parts) ||
        !date_days(calendar, parts.numbers[0], parts.numbers[1], parts.numbers[2], &days))
        return false;
    int64_t begin = days * DAY + parts.numbers[3] * 3600 + parts.numbers[4] * 60 + parts.numbers[5];
    *ret_period =
        (struct date_period){begin, end_of(calendar, &parts, begin), .is_year = parts.count == 1};
    return true;
}

bool date_is_meant(const char *text, size_t length)
{
    struct parts parts;
    return read_parts(text, length, &parts);
}

/* The last year or month that begins on the day or before. */
static void find_month(enum date_calendar calendar, int64_t days, int *ret_year, int *ret_month)
{
    int year = 1970 + (int)(days / 366), month = 1;
    while (days_of(calendar, year, 1, 1) > days)
        year--;
    while (days_of(calendar, year + 1, 1, 1) <= days)
        year++;
    while (month < 12 && days_of(calendar, year, month + 1, 1) <= days)
        month++;
    *ret_year = year;
    *ret_month = month;
}

bool date_write(enum date_calendar calendar, int64_t seconds, char ret_text[DATE_BYTES])
{
    int64_t days = seconds / DAY - (seconds % DAY < 0);
    int rest = (int)(seconds - days * DAY), year, month;
    if (days < days_of(calendar, 1, 1, 1) || days >= days_of(calendar, MOST_YEAR + 1, 1, 1))
        return false;
    find_month(calendar, days, &year, &month);
    int day = (int)(days - days_of(calendar, year, month, 1)) + 1;
    if (calendar == CALENDAR_STANDARD && year == REFORM_YEAR && month == REFORM_MONTH &&
        day > LAST_JULIAN)
        day += FIRST_GREGORIAN - LAST_JULIAN - 1;
    int length = snprintf(ret_text, DATE_BYTES, "%04d-%02d-%02d", year, month, day);
    if (rest > 0)
        length += snprintf(ret_text + length, DATE_BYTES - (size_t)length, " %02d:%02d",
                           rest / 3600, rest / 60 % 60);
    if (rest % 60 > 0)
        (void)snprintf(ret_text + length, DATE_BYTES - (size_t)length, ":%02d", rest % 60);
    return true;
}
