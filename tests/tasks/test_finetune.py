"""SFT's curve, read from the bar that stock training shows."""

from __future__ import annotations

from tasks.finetune import read_loss

LINE = "Train step of epoch {epoch}:  50%|##  | {batch}/{total} [00:01<00:02, 3.1it/s, gpt_loss={loss}, lr=0.001]"


def write_log(path, lines):
    path.write_text("\r".join(LINE.format(epoch=epoch, batch=batch, total=4, loss=loss) for epoch, batch, loss in lines))
    return path


def test_steps_count_on_over_the_epochs(tmp_path):
    log = write_log(tmp_path / "log", [(0, 1, 4.0), (0, 4, 3.0), (1, 2, 2.5e-1)])
    assert read_loss(log) == [
        {"step": 1, "total": 4, "loss": 4.0},
        {"step": 4, "total": 4, "loss": 3.0},
        {"step": 6, "total": 8, "loss": 0.25},
    ]


def test_micro_batches_make_steps(tmp_path):
    log = write_log(tmp_path / "log", [(0, 1, 4.0), (0, 2, 3.5), (0, 3, 3.0), (0, 4, 2.0), (1, 4, 1.0)])
    assert [(point["step"], point["total"], point["loss"]) for point in read_loss(log, accumulation=2)] == [
        (1, 2, 3.0),
        (2, 2, 2.0),
        (4, 4, 1.0),
    ]


def test_a_log_without_a_bar_has_no_curve(tmp_path):
    (tmp_path / "log").write_text("Setting accelerator to CPU\n")
    assert read_loss(tmp_path / "log") == []
