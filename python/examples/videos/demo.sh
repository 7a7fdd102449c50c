#!/usr/bin/env bash
# From videos to a training loop, in less than a minute, with pictures to look at.
#
#     python/examples/videos/demo.sh [FOLDER]
#
# ffmpeg makes videos, `penstock ingest` cuts segments out of them, and train.py trains an autoencoder on their frames. `penstock derive` writes
# the latents of all frames, 4 x 32 x 32 each, and predict.py trains on these. In FOLDER (demo-videos) there are afterwards segments.png, a row of
# frames for each of four segments; decoded.png, frames above what comes back from their latents; and latents.png, frames decoded from the latents
# of the dataset, above those that predict.py foresaw. Needs penstock, ffmpeg, and a Python with NumPy and penstock.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-demo-videos}
mkdir -p "$folder/videos"
cd "$folder"

make_video() { # NAME SOURCE
    [[ -e videos/$1 ]] || ffmpeg -nostdin -loglevel error -f lavfi -i "$2,format=yuv420p" -t 11 -c:v libx264 -preset ultrafast "videos/$1"
}
make_video 1.mp4 testsrc2=size=480x270:rate=30
make_video 2.mp4 mandelbrot=size=320x256:rate=24:end_scale=0.02
make_video 3.mp4 life=size=160x128:rate=25:mold=10:death_color=#C83232:life_color=#00ff00:seed=17
make_video 4.mp4 gradients=size=320x256:rate=25:speed=0.05:seed=3:c0=orange:c1=navy

penstock ingest video videos frames.zarr --segments 2 | tee ingest.log
sed -n '/^dataset:/,$p' ingest.log >run.yaml
penstock-run -c run.yaml --set order.epochs=2 --set batch.global_size=4 -- python3 "$here/train.py"

penstock derive frames.zarr latents.zarr --field latents --run "python3 '$here/encode.py'" --with segment_to_video,segment_valid
penstock-run --set dataset.uri=latents.zarr --set dataset.fields.latents=latents --set samples.where=segment_valid --set batch.global_size=4 \
    --set order.epochs=2 -- python3 "$here/predict.py"
