// SPDX-License-Identifier: Apache-2.0
// Files of a node as its kernel and drivers would show them, written into a FakeTree. The layouts are those of the kernel's
// documentation and of the drivers; the numbers are made up.
#pragma once

#include <filesystem>
#include <string>

#include "tests/unit/host/fake_tree.h"

namespace stepscope {

inline void WriteNodeFiles(const FakeTree& tree) {
  tree.Write("/proc/meminfo",
             "MemTotal:       65536 kB\nMemFree:        1024 kB\nMemAvailable:   32768 kB\nBuffers:          16 kB\n"
             "Cached:          2048 kB\nDirty:             4 kB\nHugePages_Total:      7\n");
  tree.Write("/proc/diskstats",
             " 259       0 nvme0n1 100 1 2000 30 400 5 6000 70 2 80 90 0 0 0 0 0 0\n"
             " 259       1 nvme0n1p1 90 1 1900 20 300 5 5000 60 0 70 80 0 0 0 0 0 0\n"
             "   7       0 loop0 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
             "   1       0 ram0 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
             " 104       0 cciss/c0d0 11 0 22 0 0 0 0 0 0 0 0\n");
  tree.Write("/sys/block/nvme0n1/size", "1\n");
  tree.Write("/sys/block/cciss!c0d0/size", "1\n");
  tree.Write("/proc/1/net/dev",
             "Inter-|   Receive                                                |  Transmit\n"
             " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
             "compressed\n"
             "    lo: 5000 50 0 0 0 0 0 0 5000 50 0 0 0 0 0 0\n"
             "  eth0:123456 789 1 2 0 0 0 0 654321 987 3 4 0 0 0 0\n"
             "eth0:1: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n"
             "vethab12: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"
             "docker0: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n");
  tree.Write("/proc/net/dev", "  eth0: 1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0\n");
}

inline void WriteProcessFiles(const FakeTree& tree, ProcessKey process) {
  const std::string folder = "/proc/" + std::to_string(process.pid.value);
  tree.Write(folder + "/status",
             "Name:\tpython\nVmRSS:\t    2048 kB\nVmSwap:\t       8 kB\nThreads:\t4\nvoluntary_ctxt_switches:\t150\n"
             "nonvoluntary_ctxt_switches:\t12\n");
  tree.Write(folder + "/io",
             "rchar: 5000\nwchar: 600\nsyscr: 7\nsyscw: 8\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n");
}

inline void WriteNetworkDevices(const FakeTree& tree) {
  const std::string mellanox = "/sys/class/infiniband/mlx5_0";
  tree.Write(mellanox + "/ports/1/state", "4: ACTIVE\n");
  tree.Write(mellanox + "/ports/1/counters/port_xmit_data", "1000\n");
  tree.Write(mellanox + "/ports/1/counters/port_rcv_data", "2000\n");
  tree.Write(mellanox + "/ports/1/counters/VL15_dropped", "3\n");
  tree.Write(mellanox + "/ports/1/counters/symbol_error", "N/A (no PMA)\n");
  tree.Write(mellanox + "/ports/1/hw_counters/out_of_sequence", "4\n");
  tree.Write(mellanox + "/ports/1/hw_counters/lifespan", "10\n");
  tree.Write(mellanox + "/ports/2/state", "1: DOWN\n");
  // udev calls EFA devices by their slot.
  const std::string efa = "/sys/class/infiniband/rdmap16s27";
  tree.Write("/sys/bus/pci/drivers/efa/module", "");
  tree.Write(efa + "/device/vendor", "0x1d0f\n");
  std::filesystem::create_directory_symlink("../../../../bus/pci/drivers/efa", tree.root() + efa + "/device/driver");
  tree.Write(efa + "/hw_counters/submitted_cmds", "77\n");
  tree.Write(efa + "/ports/1/state", "4: ACTIVE\n");
  tree.Write(efa + "/ports/1/hw_counters/tx_bytes", "123456789012\n");
  tree.Write(efa + "/ports/1/hw_counters/retrans_bytes", "4096\n");
}

inline void WriteLustre(const FakeTree& tree) {
  tree.Write("/sys/kernel/debug/lustre/llite/fsx-ffff8881/stats",
             "snapshot_time             1700000000.123456789 secs.nsecs\n"
             "read_bytes                4131 samples [bytes] 4096 1048576 4299161600 9\n"
             "write_bytes               10 samples [bytes] 1 4096 40960\n"
             "open                      25 samples [reqs]\n"
             "fsync                     6 samples [usec] 10 900 1500 4\n");
}

inline void WriteNeuron(const FakeTree& tree, const std::string& driver) {
  const std::string device = "/sys/devices/virtual/neuron_device/neuron0";
  const std::string core = device + "/neuron_core1";
  tree.Write("/sys/module/neuron/version", driver + "\n");
  tree.Write(device + "/core_count", "2");  // the driver writes no newline here
  tree.Write(device + "/reset", "1\n");
  tree.Write(device + "/stats/hardware/mem_ecc_uncorrected", "2\n");
  tree.Write(device + "/stats/power/utilization", "POWER_STATUS_VALID,1700000000,10.5,90.25,45.75\n");
  tree.Write(device + "/stats/memory_usage/host_mem/tensors/total", "4096\n");
  tree.Write(device + "/stats/memory_usage/host_mem/tensors/peak", "9999\n");
  tree.Write(core + "/stats/status/success/total", "1000\n");
  tree.Write(core + "/stats/status/success/present", "5\n");
  tree.Write(core + "/stats/status/infer_completed_with_error/total", "3\n");
  tree.Write(core + "/stats/memory_usage/device_mem/total", "1048576\n");
  tree.Write(core + "/stats/memory_usage/device_mem/model_code/total", "65536\n");
  tree.Write(core + "/stats/other_info/nc_time_in_use/total", "2500\n");
  tree.Write(core + "/stats/other_info/flop_count", "18446744073709551615\n");
  tree.Write(core + "/stats/tensor_engine/pe_cntrs", "xrow_grp,mm_active,wl_active,idle\n0,100,20,3\n1,200,40,6\n");
}

inline void WriteTrainingConfig(const FakeTree& tree) {
  const std::string folder = "/opt/ml/input/config";
  tree.Write(
      folder + "/hyperparameters.json",
      R"({"optimizer": "\"adam\"", "lr": "3e-4", "layers": 12, "hf_token": "hf_abcdef", "AWS_Secret_Key": "x", "note": "\"a"})");
  tree.Write(folder + "/resourceconfig.json",
             R"({"current_host": "algo-1", "hosts": ["algo-1", "algo-2"], "current_instance_type": "ml.p4d.24xlarge",)"
             R"( "network_interface_name": "eth0", "current_group_name": "homogeneousCluster", "unknown": {"a": [1, 2]}})");
  tree.Write(folder + "/inputdataconfig.json",
             R"({"train": {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}})");
  tree.Write("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
  tree.Write("/sys/class/dmi/id/product_name", "p4d.24xlarge\n");
  tree.Write("/sys/class/dmi/id/board_asset_tag", "i-0123456789abcdef0\n");
}

}  // namespace stepscope
