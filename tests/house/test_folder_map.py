# SPDX-License-Identifier: Apache-2.0
"""The folder list of docs/architecture.md is true: each folder it names is there, and each top-level folder is named."""

import re

import pytest
from tree import ROOT, all_files, text_of

PAGE = "docs/architecture.md"


def listed_folders():
    """First word of each line of the code block under the heading "Folders"; a line ends at its explanation."""
    block = re.search(r"^## Folders\b.*?^```\n(.*?)^```", text_of(PAGE), re.M | re.S).group(1)
    return re.findall(r"^ *(\S+)/(?: |$)", block, re.M)


def folders_with_files():
    found = set()
    for name in all_files():
        parts = name.split("/")[:-1]
        found.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))
    return found


def test_no_folder_is_listed_twice():
    folders = listed_folders()
    assert len(folders) >= 10 and len(folders) == len(set(folders))


@pytest.mark.parametrize("folder", listed_folders())
def test_listed_folder_holds_files(folder):
    assert folder in folders_with_files(), f"{PAGE} lists {folder}/, which is not there"


def test_every_top_level_folder_is_listed():
    top = {folder for folder in folders_with_files() if "/" not in folder}
    assert sorted(top - set(listed_folders())) == []


@pytest.mark.parametrize("parent", ["daemon", "agent"])
def test_every_folder_below_a_mapped_one_is_listed(parent):
    below = {folder for folder in folders_with_files() if folder.count("/") == 1 and folder.startswith(parent + "/")}
    assert sorted(below - set(listed_folders())) == []


def test_links_in_the_documents_lead_somewhere():
    broken = []
    for name in all_files():
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(name)):
            if "://" not in target and not ((ROOT / name).parent / target).exists():
                broken.append(f"{name}: {target}")
    assert broken == []
