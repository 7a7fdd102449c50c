# Meshes: what a plan says of groups, and one clear line for each mesh, cut or share that does not fit.
. "$(dirname "$0")/lib.sh"

"$penstock" synth weather --layout weather --samples 40 --shape 4,8,16 >/dev/null

plan() {
    "$penstock" plan -c run.yaml --readers 2 "$@"
}

# config CUTS FIELDS: writes run.yaml.
config() {
    cat >run.yaml <<YAML
dataset:
  uri: weather
  cuts: {$1}
  fields: {$2}
delivery: {trainers: 4, mesh: [dp: 2, sp: 2], data: [dp]}
batch: {global_size: 4}
YAML
}

config "lat: {over: sp}" "x: {array: data, cut: {latitude: lat}}"
text=$(plan)
contains "$text" "10 an epoch of 4 samples, 2 for each of the 2 groups"
contains "$text" "mesh       2 groups of 2 trainers"
contains "$text" "1 x " # a reader's ring is of a group

# The same samples and order, whatever the mesh.
order_id=$(sed -n 's/.*order id \([0-9a-f]*\),.*/\1/p' <<<"$text")
contains "$(plan --set delivery.mesh=tp:2,dp:1,sp:2 --set delivery.data=dp)" "order id $order_id"

# refused PATTERN [ARGUMENT...]: the plan is refused with one line that has PATTERN.
refused() {
    local pattern=$1 actual=0
    shift
    plan "$@" >out 2>err || actual=$?
    [ "$actual" -eq 1 ] || [ "$actual" -eq 4 ] || fail "$pattern: exit code $actual: $(cat out err)"
    [ "$(wc -l <err)" -eq 1 ] || fail "$pattern: not one line: $(cat err)"
    contains "$(cat err)" "$pattern"
}

refused "delivery.mesh has 6 ranks, the product of its sizes, and delivery.trainers is 4" --set delivery.mesh=dp:2,sp:3
refused "delivery.data: delivery.mesh has no axis 'tp'" --set delivery.data=tp
refused "batch.global_size 1 is less than delivery.mesh's groups, 2: a step has a sample for each; raise it to at least 2" --set batch.global_size=1
refused "dataset.fields.x.cut.latitude: dataset.cuts has no cut 'rows'" --set dataset.fields.x.cut.latitude=rows
refused "dataset.fields.x.cut.latitude (lat): 8 indices are not a multiple of 3 parts; write split: chunk" \
    --set delivery.trainers=6 --set delivery.mesh=dp:2,sp:3
plan --set delivery.trainers=6 --set delivery.mesh=dp:2,sp:3 --set dataset.cuts.lat.split=chunk >/dev/null
refused "dataset.fields.x.cut.depth (lat): samples of 'x' have no such axis: they have 3" --set dataset.fields.x.cut.depth=lat
refused "dataset.fields.x.cut.3 (lat): samples of 'x' have no such axis: they have 3" --set dataset.fields.x.cut.3=lat
refused "dataset.fields.x.cut.1 (lon): axis 1 of 'x' is cut twice: by its number and by its name" \
    --set dataset.cuts.lon.over=sp --set dataset.fields.x.cut.1=lon
refused "dataset.fields.x.cut.longitude (lat): 'x' has 16 indices there, and 'x' has 8 along its axis 1, with the same cut" \
    --set dataset.fields.x.cut.longitude=lat
refused "'x' is cut along 2 axes already" --set dataset.cuts.lon.over=sp --set dataset.fields.x.cut.longitude=lon \
    --set dataset.cuts.v.over=sp --set dataset.fields.x.cut.0=v
refused "dataset.fields.x.only.sp: '2' is no coordinate along axis 'sp': 0 to 1, first, or last" --set dataset.fields.x.only.sp=2
refused "dataset.fields.x.only.sp: no trainer would have the field" --set dataset.fields.x.only.sp=[]

# Samples of steps are cut by their number alone: the sample axis has none.
config "t: {over: sp}" 'x: {array: data, steps: "0:4", cut: {0: t}}'
contains "$(plan)" "mesh       2 groups of 2 trainers"
sed -i 's/cut: {0: t}/cut: {time: t}/' run.yaml
refused "dataset.fields.x.cut.time (t): samples of 'x' have no such axis: they have 4"
