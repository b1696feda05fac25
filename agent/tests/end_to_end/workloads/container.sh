#!/bin/sh
# Runs a workload as a container would, in the namespaces that the caller has made: below a root
# directory of its own, where the interpreter has paths that lead nowhere on the host.
#
# Usage: container.sh ROOT PROGRAM MODULES WORKLOAD
#   ROOT      an empty directory
#   PROGRAM   the interpreter
#   MODULES   the directory of its standard library
#   WORKLOAD  a Python file, which may import what stands beside it
set -eu
root=$1 program=$2 modules=$3 workload=$4

mount -t tmpfs tmpfs "$root"
cd "$root"
mkdir -p old proc srv opt/python/bin opt/python/libraries "opt/python/lib/${modules##*/}"
cp "$program" opt/python/bin/python
cp "${workload%/*}"/*.py srv
mount --bind "$modules" "opt/python/lib/${modules##*/}"
mount -t proc proc proc
# What is linked against musl only its own loader can tell.
libraries=$(ldd "$program" 2>/dev/null) || libraries=$(/lib/ld-musl-*.so.1 --list "$program")
for library in $(echo "$libraries" | grep -o '/[^ ]*'); do
    case $library in
    */ld-*)
        mkdir -p ".${library%/*}"
        cp "$library" ".$library"
        ;;
    *)
        cp "$library" opt/python/libraries
        ;;
    esac
done

# What unmounts the host is the host's; it hides what stands in the same places until then.
borrowed=
for directory in /bin /lib /lib64 /usr; do
    mkdir -p ".$directory"
    mount --rbind "$directory" ".$directory"
    borrowed="$directory $borrowed"
done
pivot_root . old
# shellcheck disable=SC2086 # One argument for each directory.
umount --lazy /old $borrowed

export LD_LIBRARY_PATH=/opt/python/libraries PYTHONHOME=/opt/python
cd /
exec /opt/python/bin/python -s -B "/srv/${workload##*/}"
