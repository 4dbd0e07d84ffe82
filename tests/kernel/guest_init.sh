# shellcheck shell=dash disable=SC1091,SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# First process of the guest: runs every live scheduling test and one recorded job, says what came of each on the serial
# console as "case NAME passed|failed|skipped", and powers off. initramfs.py makes it /init and writes /programs, the
# variables LIVE_TEST and STEPSCOPE. Nothing is mounted over /tmp: the build may lie below it.
export PATH=/bin LANG=C.UTF-8 HOME=/tmp
for applet in $(/bin/busybox --list); do
  [ -e "/bin/$applet" ] || /bin/busybox ln -s busybox "/bin/$applet"
done
mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo "kernel $(uname -r)"

# RunCase NAME COMMAND…: its output first, then the verdict; gtest's own skips are told apart.
RunCase() {
  name=$1
  shift
  if "$@" >/out 2>&1; then verdict=passed; else verdict="failed (exit status $?)"; fi
  if grep -q '^\[  SKIPPED \]' /out; then verdict=skipped; fi
  sed 's/^/| /' /out
  echo "case $name $verdict"
}

LiveTests() {
  "$LIVE_TEST" --gtest_list_tests | while read -r line; do
    case $line in
      *.) suite=$line ;;
      Running*) ;;
      *) RunCase "$suite$line" timeout 300 "$LIVE_TEST" "--gtest_filter=$suite$line" </dev/null ;;
    esac
  done
}

# A shell that starts 200 processes which sleep: turns, waits, forks and exits through the whole product.
Job() {
  "$STEPSCOPE" --data-dir /data run --job floor -- /bin/busybox sh -c \
    'i=0; while [ $i -lt 200 ]; do /bin/busybox usleep 100; i=$((i + 1)); done' || return
  "$STEPSCOPE" --data-dir /data report floor --format json >/report.json || return
  tr -d ' \n' </report.json >/report
  grep -o '"tables":{.*}}' /report | cut -c1-300
  grep -o '"loss":\[[^]]*\]' /report
  grep -Eq '"sched_slice":\{"rows":[0-9]{3,},' /report && grep -q '"loss":\[\]' /report
}

. /programs
LiveTests
RunCase job.doctor timeout 60 "$STEPSCOPE" --data-dir /doctor doctor
RunCase job.recorded Job
echo "guest done"
poweroff -f
