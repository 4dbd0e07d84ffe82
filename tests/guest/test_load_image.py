# SPDX-License-Identifier: Apache-2.0
"""What loading the agent does to the memory and the symbols of a foreign process, read from the built files: no executable
stack, no text relocation, thread-local storage only as one initial-exec pointer, no symbol that is unique in the whole process.
Each rule is also held against a library made to break it."""

import re
import subprocess

import pytest
from e2e_fixtures import BUILD

POINTER_BYTES = 8


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def broken_rules(library):
    """The rules a shared library breaks, as words."""
    segments = {
        line.split()[0]: line.split() for line in output("readelf", "-lW", library).splitlines() if line.strip()
    }
    dynamic = output("readelf", "-d", library)
    broken = set()
    stack = segments.get("GNU_STACK")
    if stack is None or "E" in stack[6]:
        broken.add("executable stack")
    if "TEXTREL" in dynamic:
        broken.add("text relocation")
    if "TLS" in segments and int(segments["TLS"][5], 16) != POINTER_BYTES:
        broken.add("thread-local storage of another size")
    if re.search(r"DTPMOD|DTPREL|DTPOFF|TLSDESC", output("readelf", "-rW", library)) or "__tls_get_addr" in output(
        "nm", "-D", library
    ):
        broken.add("thread-local storage of a dynamic model")
    if " UNIQUE " in output("readelf", "-sW", library):
        broken.add("unique symbol")
    return broken


@pytest.mark.parametrize("library", ["lib/libstepscope_agent.so", "python/stepscope/_agent.abi3.so"])
def test_loading_changes_nothing_of_the_process(library):
    assert broken_rules(BUILD / library) == set()


def test_the_agent_has_one_initial_exec_pointer():
    assert re.findall(r"TPOFF|TLS_TPREL", output("readelf", "-rW", BUILD / "lib/libstepscope_agent.so"))
    assert "STATIC_TLS" in output("readelf", "-d", BUILD / "lib/libstepscope_agent.so")


TEXT_WITH_AN_ADDRESS = 'extern int foreign; __asm__(".text\\n.globl place\\nplace: .quad foreign");'
BREAKERS = {
    "executable stack": ("c", "int f(void) { return 1; }", ["-z", "execstack"]),
    "text relocation": ("c", TEXT_WITH_AN_ADDRESS, ["-z", "notext"]),
    "thread-local storage of another size": (
        "c",
        '__attribute__((tls_model("initial-exec"))) __thread long two[2]; long f(void) { return two[1]; }',
        [],
    ),
    "thread-local storage of a dynamic model": ("c", "__thread long one; long* f(void) { return &one; }", []),
    "unique symbol": (
        "c++",
        "template <class T> struct Holder { static int value; }; template <class T> int Holder<T>::value = 1;"
        "int f() { return Holder<int>::value; }",
        [],
    ),
}


@pytest.mark.parametrize("rule", BREAKERS)
def test_a_library_that_breaks_a_rule_is_found_out(rule, tmp_path):
    language, source, link_options = BREAKERS[rule]
    (tmp_path / "broken").write_text(source)
    options = [f"-Wl,{','.join(link_options)}"] if link_options else []
    library = tmp_path / "broken.so"
    output("g++", "-x", language, "-fPIC", "-shared", "-nostdlib", tmp_path / "broken", *options, "-o", library)
    assert broken_rules(library) == {rule}
