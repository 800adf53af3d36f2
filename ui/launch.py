"""Where the room runs: one app root for Chainlit, one secret, whatever the working directory is."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from agent.settings import Settings

APP_ROOT: Final = Path(__file__).resolve().parent
SECRET_FILE: Final = "auth_secret"
_FRESH_SECONDS: Final = 60.0


def ensure_app_root() -> None:
    """Start the process again with ``CHAINLIT_APP_ROOT`` set when it is not.

    Chainlit reads its configuration from the working directory, and writes a default one there,
    before it loads an app. This keeps ``chainlit run ui/app.py`` working from any folder and
    takes back what the first start left behind.
    """
    wanted = str(APP_ROOT)
    if os.environ.get("CHAINLIT_APP_ROOT") == wanted:
        return
    _remove_leftovers(Path.cwd())
    os.environ["CHAINLIT_APP_ROOT"] = wanted
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _remove_leftovers(folder: Path) -> None:
    if folder == APP_ROOT:
        return
    files = folder / ".files"
    if files.is_dir() and not any(files.iterdir()):
        files.rmdir()
    config = folder / ".chainlit" / "config.toml"
    if config.is_file() and time.time() - config.stat().st_ctime < _FRESH_SECONDS:
        shutil.rmtree(config.parent)


def make_private(folder: Path) -> None:
    """Make the data folder, for its owner alone: it holds what people said.

    Raises:
        OSError: when it cannot be made, or belongs to somebody else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)


def auth_secret(settings: Settings) -> str:
    """Return the secret that signs links and cookies; make and keep one when none is set.

    Raises:
        OSError: when the data folder cannot be written.
    """
    if settings.auth_secret is not None:
        return settings.auth_secret.get_secret_value()
    file = settings.data_dir / SECRET_FILE
    make_private(settings.data_dir)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return file.read_text(encoding="ascii").strip()
    with os.fdopen(handle, "w", encoding="ascii") as stream:
        secret = secrets.token_urlsafe(48)
        stream.write(secret + "\n")
    return secret
