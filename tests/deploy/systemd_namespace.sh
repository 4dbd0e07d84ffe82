#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# systemd_namespace.sh FOLDER: boots a systemd of its own, with FOLDER/units as its only units, in namespaces: own processes,
# mounts, cgroups and host name; what it writes to /etc, /run and /var/lib stays in FOLDER. Runs until it is told to exit.
set -euo pipefail
folder=$1
mkdir -p "$folder"/{units,none,etc.upper,etc.work,cgroup}
mount -t cgroup2 none "$folder/cgroup"
group=$folder/cgroup/stepscope-test-$$
mkdir "$group"
echo $$ >"$group/cgroup.procs"
umount "$folder/cgroup"
# shellcheck disable=SC2016
exec env -i PATH="$PATH" FOLDER="$folder" container=test SYSTEMD_UNIT_PATH="$folder/units" \
  SYSTEMD_GENERATOR_PATH="$folder/none" SYSTEMD_ENVIRONMENT_GENERATOR_PATH="$folder/none" \
  unshare --mount --pid --fork --kill-child --uts --cgroup --propagation private bash -euc '
    mount -t proc proc /proc
    mount -t cgroup2 none /sys/fs/cgroup
    mount -t overlay overlay -o "lowerdir=/etc,upperdir=$FOLDER/etc.upper,workdir=$FOLDER/etc.work" /etc
    for own in /run /var/lib /dev/shm; do mount -t tmpfs tmpfs "$own"; done
    mount --bind "$FOLDER" "$FOLDER"
    mount --bind /proc/sys /proc/sys
    mount -o remount,bind,ro /proc/sys
    mount --bind /tmp /tmp
    mount -o remount,bind,ro /
    exec /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no'
