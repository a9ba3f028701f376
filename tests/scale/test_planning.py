"""What is scored and what is not, without Ray: the processes' work is done by this one."""

import sys
import threading
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

import manyhot as mh
from manyhot import scale as cluster
from manyhot import scale as predicting
from manyhot.classifier import Classifier
from manyhot.errors import InputError
from manyhot.images import UnreadableImage
from manyhot.network import Network
from manyhot.scale import PartsFolder, image_states, predict_with_ray
from tests.scale.folders import check_same, draw_images, stamps, watching
from tests.waiting import HANG


@pytest.fixture
def one_process(monkeypatch):
    """Lets this process do what those of Ray do."""

    def score_parts(ray, scorer, parts, *, probe, advance):
        scorer.prepare(probe, *image_states(probe.images))
        for number, part in parts:
            for handled in scorer.score(number, part):
                advance(handled)

    monkeypatch.setattr(predicting, "connected", nullcontext)
    monkeypatch.setattr(predicting, "plan_workers", lambda ray, workers, device: cluster.Workers(workers or 2, 0, 0))
    monkeypatch.setattr(predicting, "score_parts", score_parts)


@pytest.mark.usefixtures("one_process")
def test_only_what_is_new_is_scored(run_folder, tmp_path):
    images, out, told = draw_images(tmp_path / "images", range(10)), tmp_path / "scores", []
    (images / "04.png").write_bytes(b"no picture")
    first = predict_with_ray(run_folder, images, out, rows=4, batch_size=2)
    assert (first.rows, first.scored, list(first.left_out)) == (9, 9, ["04.png"])
    before = stamps(out)
    assert sorted(before) == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]

    again = predict_with_ray(run_folder, images, out, batch_size=2, watch=watching(told))
    assert (again.rows, again.scored, list(again.left_out), told) == (9, 0, ["04.png"], [0])
    with pytest.raises(UnreadableImage, match=r"The image '04.png' cannot be read"):
        predict_with_ray(run_folder, images, out, on_bad_image="fail")

    # Two more images, one that is mended, and one that has gone.
    draw_images(images, (4, 10, 11))
    (images / "00.png").unlink()
    grown = predict_with_ray(run_folder, images, out, rows=4, batch_size=2, watch=watching(told))
    assert (grown.rows, grown.scored, grown.left_out, told[1]) == (12, 3, {}, 3)
    assert {name: stamp for name, stamp in stamps(out).items() if name in before} == before
    table = mh.Predictions.open(out).load()
    assert sorted(table.ids) == [f"{number:02d}.png" for number in range(12)]
    wanted = Classifier.load(run_folder).predict([images / name for name in ("04.png", "10.png", "11.png")])
    torch.testing.assert_close(table.scores[-3:], wanted.scores)


@pytest.mark.usefixtures("one_process")
def test_parts_that_are_lost_come_back_in_their_places(run_folder, tmp_path):
    images, out = draw_images(tmp_path / "images", range(20)), tmp_path / "scores"
    predict_with_ray(run_folder, images, out, batch_size=1)
    before = stamps(out)
    assert len(before) == 10, "two images a part, so that each of two processes gets several"
    for number in (0, 4, 9):
        (out / f"part-{number:05d}.parquet").unlink()
    assert predict_with_ray(run_folder, images, out, batch_size=1).scored == 6
    check_same(out, Classifier.load(run_folder).predict(images, batch_size=1))
    assert sum(stamps(out)[name] == stamp for name, stamp in before.items()) == 7


@pytest.mark.usefixtures("one_process")
def test_images_none_of_which_can_be_read(run_folder, tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / "images" / name).write_bytes(b"")
    written = predict_with_ray(run_folder, tmp_path / "images", tmp_path / "scores", rows=2, batch_size=1)
    assert (written.rows, written.scored) == (0, 0)
    assert written.left_out == dict.fromkeys(("a.png", "b.png", "c.png"), "the file is empty")
    assert predict_with_ray(run_folder, tmp_path / "images", tmp_path / "scores").left_out == written.left_out
    draw_images(tmp_path / "images", [7])
    assert predict_with_ray(run_folder, tmp_path / "images", tmp_path / "scores").rows == 1
    assert mh.Predictions.open(tmp_path / "scores").load().ids == ["07.png"]


@pytest.mark.usefixtures("one_process")
def test_pictures_in_parquet_and_another_rule(run_folder, tmp_path):
    images = draw_images(tmp_path / "images", range(5))
    cells = [{"bytes": path.read_bytes(), "path": path.name} for path in sorted(images.iterdir())]
    pa.parquet.write_table(pa.table({"image": cells}), tmp_path / "images.parquet", row_group_size=2)
    rule = mh.TopK(2)
    predict_with_ray(run_folder, tmp_path / "images.parquet", tmp_path / "scores", rule=rule, batch_size=2)
    classifier = Classifier.load(run_folder)
    classifier.rule = rule
    check_same(tmp_path / "scores", classifier.predict(tmp_path / "images.parquet", batch_size=2))
    with pytest.raises(InputError, match="must have been begun with this classifier and rule"):
        predict_with_ray(run_folder, tmp_path / "images.parquet", tmp_path / "scores")


@pytest.mark.usefixtures("one_process")
def test_other_images_under_the_same_names_are_refused(run_folder, tmp_path):
    images, out = draw_images(tmp_path / "images", range(3)), tmp_path / "scores"
    predict_with_ray(run_folder, images, out, rows=2, batch_size=2)
    elsewhere = draw_images(tmp_path / "elsewhere", [2])
    with pytest.raises(InputError) as refused:
        predict_with_ray(run_folder, elsewhere, out)
    assert str(refused.value) == (
        "`samples` of `predict_with_ray` must be the images that were scored under these ids; got 1 that changed or "
        "lie elsewhere, such as '02.png'. Choose another folder, or remove part-00001.parquet from this one to have "
        "the images scored again."
    )
    (out / "part-00001.parquet").unlink()
    assert predict_with_ray(run_folder, elsewhere, out).scored == 1
    assert len(mh.Predictions.open(out)) == 3


@pytest.mark.usefixtures("one_process")
def test_images_under_other_names_are_not_scored_a_second_time(run_folder, tmp_path):
    images, out = draw_images(tmp_path / "images", range(3)), tmp_path / "scores"
    predict_with_ray(run_folder, images, out)
    with pytest.raises(InputError) as refused:
        predict_with_ray(run_folder, [images, draw_images(tmp_path / "more", [7])], out)
    assert str(refused.value) == (
        "`samples` of `predict_with_ray` must have the ids that they were scored under; got "
        f"{str(images / '00.png')!r}, which was scored as '00.png'. Name the folder, pattern or table as before, or "
        "choose another folder."
    )
    assert predict_with_ray(run_folder, tmp_path / "more", out).scored == 1
    (images / "copy.png").symlink_to(images / "00.png")
    assert predict_with_ray(run_folder, images, out).scored == 1


@pytest.mark.usefixtures("one_process")
def test_a_folder_can_be_begun_anew(run_folder, tmp_path):
    images, out = draw_images(tmp_path / "images", range(3)), tmp_path / "scores"
    predict_with_ray(run_folder, images, out)
    predict_with_ray(run_folder, images, out, rule=Classifier.load(run_folder).rule)  # the same, said aloud
    written = predict_with_ray(run_folder, images / "01.png", out, rule=mh.TopK(1), overwrite=True)
    assert (written.rows, written.scored) == (1, 1)
    assert mh.Predictions.open(out).load().decisions.sum() == 1


@pytest.mark.usefixtures("one_process")
def test_a_machine_that_sees_other_files_is_refused(run_folder, tmp_path, monkeypatch):
    images = draw_images(tmp_path / "images", range(1))
    monkeypatch.setattr("manyhot.scale.image_states", lambda images: ["another"])
    with pytest.raises(
        InputError, match=r"where every machine finds it; got '00.png', which .* Use paths of a disk that"
    ):
        predict_with_ray(run_folder, images, tmp_path / "scores")


def test_a_run_waits_for_processes_of_the_last_one(tmp_path):
    (tmp_path / "scores").mkdir()
    folder, entered = PartsFolder(tmp_path / "scores"), threading.Event()

    def next_run():
        with folder.exclusive():
            entered.set()

    other, labels = PartsFolder(folder.path), mh.Labels(["cat"])
    with folder.write_part(0, labels, {}) as (one, _), other.write_part(1, labels, {}) as (another, _):
        for writer in (one, another):
            writer.write(mh.Predictions(probs=torch.empty(0, 1)))
        thread = threading.Thread(target=next_run)
        thread.start()
        assert not entered.wait(0.3)
    thread.join(HANG)
    assert entered.is_set()


def test_processes_are_as_many_as_the_cluster_has_room_for():
    class Ray:
        def __init__(self, *nodes):
            self.made_of = [{"Alive": True, "Resources": node} for node in nodes]

        def nodes(self):
            return self.made_of

        def cluster_resources(self):
            return {kind: sum(node["Resources"].get(kind, 0) for node in self.made_of) for kind in ("CPU", "GPU")}

    workers = cluster.Workers
    plain, mixed = Ray({"CPU": 4.0}), Ray({"CPU": 8.0, "GPU": 2.0}, {"CPU": 64.0, "GPU": 4.0}, {"CPU": 2.0})
    assert cluster.plan_workers(plain, workers=None, device=None) == workers(4, 0, 0)
    assert cluster.plan_workers(plain, workers=9, device="cpu") == workers(4, 0, 0)
    assert cluster.plan_workers(mixed, workers=None, device=None) == workers(6, 1, 3)
    assert cluster.plan_workers(mixed, workers=2, device="cuda") == workers(2, 1, 3)
    assert cluster.plan_workers(mixed, workers=None, device="cpu") == workers(74, 0, 0)
    with pytest.raises(InputError, match="must be one that the cluster has; got 'cuda' without GPUs"):
        cluster.plan_workers(plain, workers=None, device="cuda")
    with pytest.raises(InputError, match="must lead to a cluster with cores or GPUs; got none"):
        cluster.plan_workers(Ray({}), workers=None, device=None)


def test_addresses_that_lead_nowhere_are_refused():
    with pytest.raises(
        InputError, match=r"which this machine is part of; got 'ray://head:10001'\. Run it on a machine"
    ):
        cluster.connected("ray://head:10001").__enter__()


def test_bad_arguments_are_refused_before_anything_starts(run_folder, tmp_path):
    images, out = draw_images(tmp_path / "images", range(1)), tmp_path / "scores"
    for wrong, said in (
        ({"batch_size": 0}, "`batch_size` of `predict_with_ray` must be a whole number, at least 1; got 0."),
        ({"rows": 0}, "`rows` of `predict_with_ray` must be a whole number, at least 1; got 0."),
        ({"workers": 0}, "`workers` of `predict_with_ray` must be a whole number, at least 1; got 0."),
        ({"on_bad_image": "cry"}, "`on_bad_image` of `predict_with_ray` must be one of 'skip', 'fail'; got 'cry'."),
        ({"device": "abacus"}, "`device` of `predict_with_ray` must be one of 'cpu', 'cuda'; got 'abacus'."),
    ):
        with pytest.raises(InputError) as refused:
            predict_with_ray(run_folder, images, out, **wrong)
        assert str(refused.value).startswith(said)
    head = mh.LinearHead(2, 3)
    Classifier(Network(None, head), ["a", "b", "c"], link=mh.SigmoidLink()).save(tmp_path / "features")
    with pytest.raises(InputError, match="must be one of images; got one of features"):
        predict_with_ray(tmp_path / "features", images, out)
    assert not out.exists()


def test_without_ray_it_says_how_to_get_it(run_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError) as missing:
        predict_with_ray(run_folder, tmp_path, tmp_path / "scores")
    assert str(missing.value) == "Runs on a cluster need ray. Install it with: pip install 'manyhot[ray]'"
