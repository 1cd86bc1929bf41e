#!/usr/bin/env bash
# Record the traces shipped in examples/traces anew. Debian: apt-get install hpcc lammps openmpi-bin libopenmpi-dev gcc; python: mpi4py.
#     bash examples/capture/record.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${1:?folder for the traces}")
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/hpccinf.txt" "$here/in.lj" "$work"
cd "$work"
mpirun=/usr/bin/mpirun
netsim capture -o "$out/hpcc-8.parquet" -- $mpirun --oversubscribe -n 8 hpcc
# A second run tells where its sections begin.
"$(dirname "$(command -v netsim)")/python" "$here/hpcc_sections.py" "$out/hpcc-8.parquet" -- $mpirun --oversubscribe -n 8 hpcc
netsim capture -o "$out/lammps-64.parquet" -- $mpirun --oversubscribe -n 64 lmp -in in.lj
netsim capture -o "$out/cg-8.parquet" -- $mpirun --oversubscribe -n 8 "$(command -v python3)" "$here/cg_mpi4py.py"
