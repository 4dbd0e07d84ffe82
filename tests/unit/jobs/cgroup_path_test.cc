// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/cgroup_path.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/jobs/fake_proc.h"

namespace stepscope {
namespace {

const std::string kId(64, 'a');
const std::string kOther = std::string(32, '0') + std::string(32, 'b');
const std::string kUid = "0f1e2d3c-1111-2222-3333-444455556666";
const std::string kUnitUid = "0f1e2d3c_1111_2222_3333_444455556666";
const std::string kStaticUid(32, '7');

struct Layout {
  std::string name;
  std::string text;
  std::string tenant;
  std::string pod;
  std::string container;
  std::string runtime;
};

std::string Unified(const std::string& path) { return "0::" + path + "\n"; }
/// Version 1: the controllers a runtime puts its containers in, and one it leaves alone.
std::string Legacy(const std::string& path) {
  return fmt::format("11:rdma:/\n5:cpu,cpuacct:{0}\n4:memory:{0}\n1:name=systemd:{0}\n", path);
}

std::vector<Layout> Layouts() {
  const std::string& id = kId;
  const std::string burstable = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kUnitUid + ".slice";
  const std::string guaranteed = "/kubepods.slice/kubepods-pod" + kUnitUid + ".slice";
  const std::string best_effort = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + kUnitUid + ".slice";
  const std::string kind =
      "/docker/" + kOther + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + kUnitUid + ".slice";
  return {
      {"host, v2", Unified("/user.slice/user-1000.slice/session-3.scope"), "host", "", "", ""},
      {"host, root groups", "0::/\n", "host", "", "", ""},
      {"host, v1", Legacy("/system.slice/sshd.service"), "host", "", "", ""},
      {"docker, systemd", Unified("/system.slice/docker-" + id + ".scope"), id, "", id, "docker"},
      {"docker, cgroupfs", Legacy("/docker/" + id), id, "", id, "docker"},
      {"docker, a parent of the user's", Legacy("/training/" + id), id, "", id, ""},
      {"docker, systemd inside the container", Unified("/docker/" + id + "/system.slice/sshd.service"), id, "", id, "docker"},
      {"docker, runc without systemd", Legacy("/system.slice:docker:" + id), id, "", id, "docker"},
      {"containerd, nerdctl", Unified("/system.slice/nerdctl-" + id + ".scope"), id, "", id, "containerd"},
      {"containerd, ctr", Legacy("/default/" + id), id, "", id, ""},
      {"podman", Unified("/machine.slice/libpod-" + id + ".scope/container"), id, "", id, "podman"},
      {"podman, rootless", Unified("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope"), id, "",
       id, "podman"},
      {"podman, split groups", Unified("/user.slice/train.service/libpod-payload-" + id), id, "", id, "podman"},
      {"podman's monitor", Unified("/machine.slice/libpod-conmon-" + id + ".scope"), "host", "", "", ""},
      {"podman pod", Unified("/machine.slice/machine-libpod_pod_" + kOther + ".slice/libpod-" + id + ".scope"), kOther, kOther,
       id, "podman"},
      {"kubepods, systemd, guaranteed, containerd", Unified(guaranteed + "/cri-containerd-" + id + ".scope"), kUid, kUid, id,
       "containerd"},
      {"kubepods, systemd, burstable, cri-o", Unified(burstable + "/crio-" + id + ".scope/container"), kUid, kUid, id, "cri-o"},
      {"kubepods, systemd, best effort, docker", Legacy(best_effort + "/docker-" + id + ".scope"), kUid, kUid, id, "docker"},
      {"kubepods, runc without systemd",
       Legacy("/system.slice/containerd.service/kubepods-burstable-pod" + kUnitUid + ".slice:cri-containerd:" + id), kUid, kUid,
       id, "containerd"},
      {"kubepods, cgroupfs, guaranteed", Legacy("/kubepods/pod" + kUid + "/" + id), kUid, kUid, id, ""},
      {"kubepods, cgroupfs, burstable", Unified("/kubepods/burstable/pod" + kUid + "/" + id), kUid, kUid, id, ""},
      {"kubepods, cgroupfs, cri-o", Legacy("/kubepods/besteffort/pod" + kUid + "/crio-" + id), kUid, kUid, id, "cri-o"},
      {"static pod", Unified("/kubepods/burstable/pod" + kStaticUid + "/" + id), kStaticUid, kStaticUid, id, ""},
      {"pod sandbox", Unified(burstable), kUid, kUid, "", ""},
      {"another cgroup namespace, systemd",
       Unified("/../../kubepods-burstable.slice/kubepods-burstable-pod" + kUnitUid + ".slice/cri-containerd-" + id + ".scope"),
       kUid, kUid, id, "containerd"},
      {"another cgroup namespace, cgroupfs", Unified("/../../pod" + kUid + "/" + id), kUid, kUid, id, ""},
      {"docker in a pod", Unified(guaranteed + "/cri-containerd-" + id + ".scope/docker/" + kOther), kUid, kUid, kOther,
       "docker"},
      {"Kubernetes in docker", Unified(kind + "/cri-containerd-" + id + ".scope"), kOther + "/" + kUid, kUid, id, "containerd"},
      {"docker in docker", Legacy("/docker/" + kOther + "/docker/" + id), kOther + "/" + id, "", id, "docker"},
      {"hybrid: v1 controllers in the container, v2 not", "2:memory:/docker/" + id + "\n1:name=systemd:/\n0::/\n", id, "", id,
       "docker"},
      {"hybrid: v2 in the container, v1 not", "2:memory:/\n0::/system.slice/docker-" + id + ".scope\n", id, "", id, "docker"},
      {"a group removed under its process", Unified("/system.slice/docker-" + id + ".scope (deleted)"), id, "", id, "docker"},
      {"an id too short", Unified("/system.slice/docker-abc.scope"), "host", "", "", ""},
      {"no hexadecimal id", Unified("/docker/" + std::string(64, 'x')), "host", "", "", ""},
      {"a directory that begins like a pod", Unified("/podium/pod-racing/pod"), "host", "", "", ""},
      {"32 digits that are no container", Legacy("/process_api/" + kStaticUid), "host", "", "", ""},
  };
}

TEST(CgroupPath, EveryLayoutGivesItsTenant) {
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(layout.name);
    const CgroupPlace place = ParseCgroups(layout.text);
    EXPECT_EQ(place.tenant, layout.tenant);
    EXPECT_EQ(place.pod, layout.pod);
    EXPECT_EQ(place.container, layout.container);
    EXPECT_EQ(place.runtime, layout.runtime);
  }
}

TEST(CgroupPath, OnlyKubernetesPodsAreOfKubernetes) {
  EXPECT_TRUE(ParseCgroups(Unified("/kubepods/pod" + kUid + "/" + kId)).in_kubernetes);
  EXPECT_FALSE(ParseCgroups(Unified("/machine.slice/machine-libpod_pod_" + kId + ".slice")).in_kubernetes);
}

TEST(CgroupPath, AProcessCannotLeaveItsTenantByGroupsOfItsOwn) {
  const std::string own = "/docker/" + kId;
  EXPECT_EQ(ParseCgroups(Unified(own + "/kubepods/pod" + kUid + "/" + kOther)).tenant, kId + "/" + kUid);
  const std::string pod = "/kubepods/pod" + kUid + "/" + kId;
  const std::string forged = "99999999-1111-2222-3333-444455556666";
  EXPECT_EQ(ParseCgroups(Unified(pod + "/pod" + forged + "/" + kOther)).tenant, kUid);
}

struct SlurmLayout {
  std::string text;
  std::string job;
  std::string step;
};

TEST(CgroupPath, SlurmStepsOfBothVersions) {
  const SlurmLayout layouts[] = {
      {"9:memory:/slurm/uid_1000/job_77/step_0/task_3\n1:name=systemd:/system.slice/slurmd.service\n", "77", "0"},
      {"9:freezer:/slurm_node01/uid_1000/job_77/step_batch\n", "77", "batch"},
      {"9:cpuset:/slurm/uid_1000/job_77\n", "77", ""},
      {Unified("/system.slice/slurmstepd.scope/job_77/step_4/user/task_0"), "77", "4"},
      {Unified("/system.slice/node01_slurmstepd.scope/job_77/step_extern/user/task_special"), "77", "extern"},
      {Unified("/system.slice/slurmstepd.scope/system"), "", ""},
      {Unified("/system.slice/slurmstepd.scope/job_evil/step_0"), "", ""},
      {Unified("/srv/job_77/step_0"), "", ""},
  };
  for (const SlurmLayout& layout : layouts) {
    SCOPED_TRACE(layout.text);
    const CgroupPlace place = ParseCgroups(layout.text);
    EXPECT_EQ(place.slurm_job, layout.job);
    EXPECT_EQ(place.slurm_step, layout.step);
    EXPECT_EQ(place.tenant, "host");
  }
}

TEST(CgroupPath, TheInnermostUnitIsNamed) {
  EXPECT_EQ(ParseCgroups(Unified("/user.slice/user-1000.slice/user@1000.service/app.slice/train.service")).systemd_unit,
            "train.service");
  EXPECT_EQ(ParseCgroups("4:memory:/other.service\n1:name=systemd:/system.slice/sshd.service\n").systemd_unit, "sshd.service");
  EXPECT_EQ(ParseCgroups("4:memory:/other.service\n").systemd_unit, "");
}

TEST(CgroupPath, GarbageIsTheHost) {
  for (const char* text : {"", "\n\n", ":", "::", ":::", "x:y:/docker", "0:", "0::", "0::////", "-1::/docker/x"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(ParseCgroups(text).tenant, "host");
  }
  std::mt19937 random(7);
  const std::string alphabet = "/:0a_-\n.podslurmjbk" + std::string(1, '\0') + "\xff";
  for (int round = 0; round < 2000; ++round) {
    std::string text = "0::/";
    for (size_t i = 0; i < 200; ++i) text += alphabet[random() % alphabet.size()];
    EXPECT_FALSE(ParseCgroups(text).tenant.empty());
  }
}

TEST(CgroupPath, AnExitingProcessIsNotTakenForOneOfTheHost) {
  FakeProc proc;
  const ProcessKey process = proc.Add({.pid = 41, .cgroup = "1:name=systemd:/\n"});
  EXPECT_EQ(ReadCgroups(process, proc.root())->tenant, "host");
  EXPECT_FALSE(ReadCgroups({process.pid, process.start_ticks + 1}, proc.root()));
  proc.Add({.pid = 41, .cgroup = "1:name=systemd:/\n", .flags = 0x4});
  EXPECT_FALSE(ReadCgroups(process, proc.root()));
  EXPECT_FALSE(ReadCgroups({Pid{42}, 1}, proc.root()));
}

}  // namespace
}  // namespace stepscope
