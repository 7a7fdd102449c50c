# What one sample is made of.
. "$(dirname "$0")/lib.sh"

"$penstock" synth robot --layout robot --samples 200 --episodes 4 --chunk 8 --shape 8,8,3 >/dev/null
cat >policy.yaml <<'YAML'
dataset:
  uri: robot
  fields:
    img: {array: data/img, steps: "-1:1"}
    action: {array: data/action, steps: "-1:15"}
    state: data/state
samples:
  pad: {before: 1, after: 7}
batch: {global_size: 8}
YAML

text=$("$penstock" samples -c policy.yaml --index 17 --show)
contains "$text" "array data/action, frames 16 to 31, chunks 2 to 3 of 8 frames each"
contains "$text" "array data/state, frame 17, chunk 2 of 8 frames each"
contains "$text" "action.valid"
contains "$text" "action          ################"
contains "$text" "state           .#.............."

sed 's|state: data/state|camera0_rgb.view: {array: data/state}|' policy.yaml >wide.yaml
wide=$("$penstock" samples -c wide.yaml --show)
contains "$wide" "camera0_rgb.view  float32 ["
contains "$wide" "camera0_rgb.view   #...."

first=$("$penstock" samples -c policy.yaml --show)
contains "$first" "index           0"
contains "$first" "missing steps -1: the episode's nearest frame stands there"
contains "$first" "action          o###############"
contains "$("$penstock" samples -c policy.yaml --set samples.fill=zero)" "zeros stand there"

# The picture: of each step one tile, and missing ones are dashed; a crop is its own picture.
"$penstock" samples -c policy.yaml --plot sample.svg >/dev/null
picture=$(cat sample.svg)
equals() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; exit 1; }; }
equals "$(grep -c "<image" sample.svg)" 19 # 2 of img, 16 of action, 1 of state
equals "$(grep -c "stroke-dasharray" sample.svg)" 2
contains "$picture" "uint8 [2, 8, 8, 3], from"
contains "$picture" "Sample 0, of the episode of frames 0 to 199"
crop=$("$penstock" samples -c policy.yaml --set dataset.fields.img.crop.1=4 --set dataset.fields.img.crop.at=random --plot sample.svg)
contains "$crop" "uint8 [2, 4, 8, 3]"
contains "$crop" "img.crop"
contains "$(cat sample.svg)" "random crop as in epoch 0"
refuses 1 "cannot write the picture 'no/sample.svg'" samples -c policy.yaml --plot no/sample.svg
refuses 4 "crop of axis '1': 9 indices of 8" samples -c policy.yaml --set dataset.fields.img.crop.1=9 \
  --set dataset.fields.img.crop.at=random

# Without a configuration of samples, each frame is one.
contains "$("$penstock" samples --set dataset.uri=robot --index 199)" "of 8 frames each"

# Two stores: chunks are those of the frame's own store.
contains "$("$penstock" samples --set dataset.uri=robot,robot --index 201)" "frame 1 of store 2 of 2"

refuses 4 "--index 200: the dataset has frames 0 to 199" samples -c policy.yaml --index 200
refuses 4 "there is no sample at frame 199" samples -c policy.yaml --index 199
refuses 4 "reach 0 frames before the episode and 14 behind" samples -c policy.yaml --index 199

# Ragged fields: how many items, and a dense tensor's picture.
"$penstock" synth events --layout events --samples 30 --items 200 --shape 4,12,16 >/dev/null
cat >events.yaml <<'YAML'
dataset:
  uri: events
  fields:
    events:
      ragged: {offsets: events/offsets, index: [events/bin, events/y, events/x], values: events/count}
      deliver: {dense: [4, 12, 16]}
      cast: uint8
      steps: "0:3"
    counts: {ragged: {offsets: events/offsets, values: events/count}, deliver: csr}
samples: {pad: {after: 1}, fill: zero}
batch: {global_size: 4}
YAML
text=$("$penstock" samples -c events.yaml --index 28 --show --plot events.svg)
contains "$text" "items of ragged field events, dense, frames 28 to 29"
contains "$text" "missing steps 2: zeros stand there"
contains "$text" "items of ragged field counts, csr, frame 28"
contains "$text" "made for field counts"
equals "$(grep -c "<image" events.svg)" 3
contains "$(cat events.svg)" "uint8 [3, 4, 12, 16], from 0 to"
