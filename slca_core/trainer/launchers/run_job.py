"""`run_rl` as a job that outlives the flow which submitted it: it has services of its own.

python -m slca_core.trainer.launchers.run_job RUN_FOLDER/spec.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from slca_core.services.frozen import serve_frozen
from slca_core.trainer import run_rl
from slca_core.trainer.spec import load_spec


def main() -> None:
    spec = load_spec(Path(sys.argv[1]))
    with serve_frozen(spec.services, spec.machine, root=spec.root, logs=spec.folder, say=print) as services:
        urls = services.urls(spec.arm.services)
        own = spec.model_copy(update={"urls": urls, "services": services.settings, "key_files": services.key_files})
        sys.argv[1] = str(own.write("job.json"))
        run_rl.main()


if __name__ == "__main__":
    main()
