"""The check of `conftest.py` that fails a test which leaves something behind: it must be able to fail."""

import re
import subprocess
import sys
from pathlib import Path

LEAKS = """
import os, subprocess, sys, tempfile, threading
from pathlib import Path

keep = []

def test_thread():
    threading.Thread(target=threading.Event().wait, args=(10,), name="stray", daemon=True).start()

def test_descriptor():
    keep.append(open("/etc/hostname"))

def test_child():
    keep.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3)", "stray"]))

def test_orphan():
    code = "import subprocess; subprocess.Popen(['sleep', '3.25'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_socket_directory():
    tempfile.mkdtemp(prefix=f"aa-{os.getuid()}-")

def test_shared_memory():
    path = Path(f"/dev/shm/aa-stray-{os.getpid()}")
    path.touch()
    keep.append(path)

def test_nothing():
    assert True

def teardown_module():
    next(thing for thing in keep if isinstance(thing, Path)).unlink()
"""

REPORTED = {
    "test_thread": "thread stray",
    "test_descriptor": r"descriptor \d+ -> /etc/hostname",
    "test_child": r"process \d+: .* stray",
    "test_orphan": r"process \d+: sleep 3.25",
    "test_socket_directory": r"socket directory .*/aa-\d+-",
    "test_shared_memory": "shared memory /dev/shm/aa-stray-",
}


def test_each_kind_of_leak_fails_its_test(tmp_path):
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text().replace("= 2.0", "= 0.2"))
    (tmp_path / "test_leaks.py").write_text(LEAKS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", "--tb=short", str(tmp_path)]
    # Its output holds a pipe open as long as the strays live, so it goes to a file.
    with (tmp_path / "output").open("w") as output:
        subprocess.run(command, stdout=output, cwd=tmp_path, check=False)
    shown = (tmp_path / "output").read_text()
    assert "7 passed, 6 errors" in shown
    for test, report in REPORTED.items():
        assert re.search(rf"ERROR at teardown of {test} _+\n.*\n.*\nE +Failed: left behind: {report}", shown), shown
