"""The routes of the studio, asked as the page asks them."""

import csv
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

import manyhot as mh
from manyhot.studio import bind, open_studio
from manyhot.studio.app import build_api, build_app
from manyhot.studio.classify import UploadClassifier
from manyhot.studio.routes import ROUTES
from tests.studio.collections import LABELS, write_collection, write_run
from tests.studio.targets import served
from tests.waiting import HANG


@pytest.fixture
def folder(tmp_path):
    """Thirty pictures, what is predicted of them, and the model that says so."""
    return write_run(tmp_path)


@pytest.fixture
def client(folder):
    studio, _ = open_studio(folder)
    with TestClient(build_api(studio)) as client:
        yield client


def png(**options):
    written = io.BytesIO()
    Image.new("RGB", options.pop("size", (64, 64)), "white").save(written, format="PNG")
    return {"image": ("white.png", written.getvalue(), "image/png")}


def test_what_was_opened(client, folder):
    facts = client.get("/api/collection").json()
    assert (facts["rows"], facts["labels"], facts["splits"]) == (30, LABELS, {"val": 10, "test": 20})
    assert facts["name"] == str(folder)
    assert facts["pictures_words"] == "All 30 images were found."
    assert facts["review"] == {
        "file": str(folder / "reviewed.csv"),
        "done": 0,
        "edited": 0,
        "reviewable": True,
        "why": None,
        "trouble": None,
    }
    assert facts["model"]["upload_bytes"] == 32 * 2**20
    table = mh.Predictions.open(folder / "predictions.parquet").load()
    assert facts["present"] == (table.targets == 1).sum(0).tolist()
    assert facts["expected"] == pytest.approx(table.probs.sum(0).tolist(), rel=1e-5)


def test_a_search_gives_what_the_collection_gives(client, folder):
    page = client.get("/api/search", params={"q": "dog and not park", "limit": 7}).json()
    found = mh.Collection.open(folder).search("dog & !park", k=7)
    assert page["query"] == found.query
    assert [item["id"] for item in page["items"]] == [hit.id for hit in found.hits]
    assert [item["prob"] for item in page["items"]] == pytest.approx([hit.prob for hit in found.hits], rel=1e-6)
    assert page["expected"]["mean"] == pytest.approx(found.expected.mean)
    count = client.get("/api/expect", params={"q": "dog and not park"}).json()
    assert count == {"expected": page["expected"], "problem": None}
    assert count["expected"]["words"].startswith("Expected matches: ")


def test_pages_follow_each_other(client):
    params = {"q": "dog | cat", "limit": 20}
    first = client.get("/api/search", params=params).json()["items"]
    second = client.get("/api/search", params={**params, "offset": 20}).json()["items"]
    assert len(first) == 20
    assert len(second) == 10
    assert sorted(item["row"] for item in first + second) == list(range(30))
    probs = [item["prob"] for item in first + second]
    assert probs == sorted(probs, reverse=True)


def test_without_a_query_all_pictures_come_in_their_order(client):
    page = client.get("/api/search", params={"split": "test", "limit": 5}).json()
    assert page["total"] == 20
    assert [item["row"] for item in page["items"]] == [10, 11, 12, 13, 14]
    assert page["items"][0]["prob"] is None
    assert page["expected"] is None


def test_the_search_of_a_split_counts_that_split(client):
    page = client.get("/api/search", params={"q": "dog", "split": "val", "limit": 50}).json()
    assert {item["split"] for item in page["items"]} == {"val"}
    assert page["expected"]["rows"] == 10


def test_decisions_of_items_follow_the_choice(client):
    for by, value in (("rule", None), ("threshold", 0.3), ("size", 2.5), ("risk", 0.3)):
        params = {"by": by} | ({} if value is None else {"value": value})
        items = client.get("/api/search", params={**params, "limit": 50}).json()["items"]
        summary = client.get("/api/decide", params=params).json()
        assert sum(len(item["given"]) for item in items) / 30 == pytest.approx(summary["mean_size"])
        assert sum(item["none"] for item in items) / 30 == pytest.approx(summary["none_share"])
        for item in items:
            assert {label["name"] for label in item["labels"] if label["given"]} == set(item["given"])
            if summary["threshold"] is not None:
                cut = summary["threshold"]
                assert all((label["prob"] >= cut - 1e-6) == label["given"] for label in item["labels"])


def test_an_item_has_all_its_labels_and_what_is_true(client, folder):
    item = client.get("/api/items/3").json()
    table = mh.Predictions.open(folder / "predictions.parquet").load()
    assert {label["name"]: label["target"] for label in item["labels"]} == dict(
        zip(LABELS, table.targets[3].tolist(), strict=True)
    )
    probs = [label["prob"] for label in item["labels"]]
    assert probs == sorted(probs, reverse=True)


def test_a_picture_is_asked_for_once(client):
    first = client.get("/api/pictures/0", params={"side": 128})
    assert first.headers["content-type"] == "image/jpeg"
    again = client.get("/api/pictures/0", params={"side": 128}, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_picture_that_is_gone_is_an_answer(client, folder):
    (folder / "004.png").unlink()
    answer = client.get("/api/pictures/4")
    assert answer.status_code == 404
    assert answer.json()["sentence"] == "Image 4 cannot be shown: there is no such file."


def test_a_picture_that_is_sent_is_classified_as_by_the_classifier(client, folder):
    answer = client.post("/api/classify", files=png()).json()
    picture = Image.new("RGB", (64, 64), "white")
    table = mh.Classifier.load(folder).predict([picture])
    assert {label["name"]: label["prob"] for label in answer["labels"]} == pytest.approx(
        dict(zip(LABELS, table.probs[0].tolist(), strict=True)), rel=1e-5
    )
    assert set(answer["given"]) == {
        name for name, given in zip(LABELS, table.decisions[0].tolist(), strict=True) if given
    }
    assert answer["name"] == "white.png"
    nothing = client.post("/api/classify", params={"by": "threshold", "value": 1.0}, files=png()).json()
    assert (nothing["given"], nothing["none"], nothing["ask"]) == ([], True, False)


def test_what_is_no_picture_is_refused_in_a_sentence(client):
    answer = client.post("/api/classify", files={"image": ("cat.png", b"<svg></svg>", "image/png")})
    assert answer.status_code == 422
    assert answer.json()["sentence"] == (
        "The image 'cat.png' cannot be read: it is an SVG drawing, which has no pixels."
    )
    missing = client.post("/api/classify", files={"picture": ("cat.png", b"x", "image/png")})
    assert missing.status_code == 422
    assert missing.json()["sentence"].startswith("`image` of the request is invalid: Field required")


def test_too_many_at_once_are_asked_to_try_again(client):
    client.app.state.studio.upload_classifier.most_waiting = 0
    answer = client.post("/api/classify", files=png())
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


@pytest.mark.process
def test_others_are_answered_while_a_picture_is_decoded(folder, monkeypatch):
    decoding, may_end, prepare = threading.Event(), threading.Event(), UploadClassifier._prepare

    def prepare_later(self, *said):
        decoding.set()
        assert may_end.wait(HANG)
        return prepare(self, *said)

    monkeypatch.setattr(UploadClassifier, "_prepare", prepare_later)
    studio, _ = open_studio(folder, read_only=True)
    address = bind("127.0.0.1", 0)
    with served(build_app(studio, hosts=address.hosts), address) as target, ThreadPoolExecutor(1) as thread:
        sent = thread.submit(target.upload, png()["image"][1])
        assert decoding.wait(HANG)
        assert target.is_alive()
        may_end.set()
        assert sent.result().status == 200


def test_reliability_of_all_labels_and_of_one(tmp_path):
    path = write_collection(tmp_path, 120)
    table = mh.Predictions.open(path).load()
    studio, _ = open_studio(path, read_only=True)
    with TestClient(build_api(studio)) as client:
        pooled = client.get("/api/reliability").json()
        one = client.get("/api/reliability", params={"label": "dog", "split": "val"}).json()
    assert pooled["cells"] == 400 == sum(found["cells"] for found in pooled["bins"])
    assert pooled["ece"] == mh.evaluate(table.of_split("test"))["ece"]
    for found in pooled["bins"]:
        assert found["least"] <= found["observed"] <= found["most"]
    assert (one["label"], one["cells"]) == ("dog", 40)


def test_edits_are_kept_shown_and_taken_back(client, folder):
    item = client.put("/api/review/3", json={"labels": {"dog": 1, "cat": 0}, "done": True}).json()
    assert {label["name"]: label["edited"] for label in item["labels"] if label["edited"] is not None} == {
        "dog": 1,
        "cat": 0,
    }
    assert item["edited"]
    assert item["done"]
    review = client.get("/api/collection").json()["review"]
    assert (review["done"], review["edited"]) == (1, 1)
    rows = [item["row"] for item in client.get("/api/review", params={"limit": 100}).json()["items"]]
    assert 3 not in rows
    assert len(rows) == 29
    undone = client.post("/api/review/undo").json()
    assert (undone["row"], undone["item"]["edited"], undone["item"]["done"]) == (3, False, False)
    nothing = client.post("/api/review/undo")
    assert (nothing.status_code, nothing.json()["sentence"]) == (409, "There is no edit to undo.")


def test_a_picture_that_is_confirmed_says_something_of_every_label(client, folder):
    item = client.put("/api/review/4", json={"labels": {"dog": 1, "cat": -1}, "rest": 0, "done": True}).json()
    said = {label["name"]: label["edited"] for label in item["labels"]}
    assert said == {name: {"dog": 1, "cat": -1}.get(name, 0) for name in LABELS}
    assert item["trouble"] is None
    client.put("/api/review/4", json={"labels": {"cat": None}})
    labels = client.get("/api/items/4").json()["labels"]
    assert next(label["edited"] for label in labels if label["name"] == "cat") is None


def test_numbers_are_those_of_the_split(client, folder):
    client.put("/api/review/3", json={"done": True})
    val, test = (client.get("/api/collection", params={"split": split}).json() for split in ("val", "test"))
    whole = client.get("/api/collection").json()
    assert (val["rows"], test["rows"], whole["rows"]) == (10, 20, 30)
    assert (val["review"]["done"], test["review"]["done"]) == (1, 0)
    assert client.get("/api/review", params={"split": "test"}).json()["done"] == 0
    for name in ("expected", "present"):
        assert [a + b for a, b in zip(val[name], test[name], strict=True)] == pytest.approx(whole[name])


def test_the_labels_file_is_a_table_that_training_reads(client, folder):
    assert client.get("/api/review/file").status_code == 404
    client.put("/api/review/3", json={"labels": {"dog": 1, "cat": 0, "hot dog": 0, "black and white": 1, "park": 0}})
    answer = client.get("/api/review/file")
    assert answer.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert row["path"] == "003.png"
    data = mh.read_data(folder / "reviewed.csv")
    assert data.labels.names == LABELS
    assert data.targets.dense().tolist() == [[1, 0, 0, 1, 0]]


def test_edits_are_there_after_the_studio_was_closed(folder):
    for value in (1, 0):
        studio, _ = open_studio(folder)
        with TestClient(build_api(studio)) as client:
            if value:
                client.put("/api/review/5", json={"labels": {"park": 1}})
            edited = [label for label in client.get("/api/items/5").json()["labels"] if label["edited"] is not None]
            assert [label["name"] for label in edited] == ["park"]


def test_the_queue_of_errors_asks_about_labels_that_contradict(client):
    page = client.get("/api/review", params={"order": "errors", "limit": 100}).json()
    assert page["left"] == len(page["items"])
    order = [(item["suspects"][0]["target"], -item["doubt"]) for item in page["items"]]
    assert order == sorted(order)
    for item in page["items"]:
        suspect = item["suspects"][0]
        assert (suspect["prob"] > 0.5) == (suspect["target"] == 0)
    first = page["items"][0]
    again = client.get(f"/api/items/{first['row']}", params={"order": "errors"}).json()
    assert again["suspects"] == first["suspects"]
    client.put(f"/api/review/{first['row']}", json={"labels": {first["suspects"][0]["name"]: 1}})
    after = client.get("/api/review", params={"order": "errors", "limit": 100}).json()["items"]
    again = [item for item in after if item["row"] == first["row"]]
    assert all(first["suspects"][0]["name"] != one["name"] for item in again for one in item["suspects"])


def test_a_collection_without_true_labels_and_without_a_model(tmp_path):
    studio, _ = open_studio(write_collection(tmp_path, targets=False), read_only=True)
    with TestClient(build_api(studio)) as client:
        assert client.get("/api/collection").json()["present"] is None
        assert client.get("/api/items/0").json()["labels"][0]["target"] is None
        assert client.get("/api/reliability").status_code == 404
        assert client.post("/api/classify", files=png()).status_code == 404
        assert client.get("/api/review", params={"order": "errors"}).status_code == 422
        assert client.get("/api/review").json()["left"] == 30
        refused = client.put("/api/review/0", json={"labels": {"dog": 1}})
        assert refused.status_code == 422
        assert "--labels FILE" in refused.json()["sentence"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/search?q=dog&split=nope", 422, "must be one of the splits, 'val', 'test'"),
        ("/api/items/30", 404, "There is no image 30: the collection has 30 images, counted from 0."),
        ("/api/items/-1", 422, "`row` of the request is invalid"),
        ("/api/pictures/0?side=100", 404, "Images are available with 128, 256, 512, 1024 pixels, not 100."),
        ("/api/decide?by=size&value=nan", 422, "`value` of the request is invalid"),
        ("/api/reliability?label=zebra", 422, "zebra"),
        ("/api/nothing", 404, "There is nothing at this address."),
        ("/static/nothing.js", 404, "The page has no such file."),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_sentence(client, path, status, words):
    answer = client.get(path)
    assert answer.status_code == status
    assert words in answer.json()["sentence"]
    assert set(answer.json()) == {"sentence", "place"}


def test_a_query_that_cannot_be_read_is_an_answer_that_says_where(client):
    for path in ("expect", "search"):
        answer = client.get(f"/api/{path}", params={"q": "dog & ctt"})
        assert answer.status_code == 200
        assert answer.json()["expected"] is None
        assert answer.json()["problem"]["place"] == 6
        assert "Did you mean 'cat'?" in answer.json()["problem"]["sentence"]


def test_an_edit_of_a_label_that_there_is_not_changes_nothing(client):
    refused = client.put("/api/review/1", json={"labels": {"dog": 1, "zebra": 1}})
    assert refused.status_code == 422
    assert not client.get("/api/items/1").json()["edited"]
    assert client.put("/api/review/1", json={"labels": {"dog": 2}}).status_code == 422
    assert client.put("/api/review/1", json={"lables": {"dog": 1}}).status_code == 422


def test_an_empty_collection_answers_all_the_same(tmp_path):
    mh.Predictions(probs=torch.zeros(0, 3), targets=torch.zeros(0, 3), labels=["a", "b", "c"]).save(
        tmp_path / "empty.parquet"
    )
    studio, _ = open_studio(tmp_path / "empty.parquet")
    with TestClient(build_api(studio)) as client:
        for path in ("collection", "search", "search?q=a", "expect?q=a", "decide", "reliability", "review"):
            assert client.get(f"/api/{path}").status_code == 200, path


def test_every_route_of_the_api_is_described(client):
    described = client.get("/api/openapi.json").json()["paths"]
    for route in ROUTES:
        if route.api:
            operation = described[route.path][route.method.lower()]
            assert operation["summary"]
            assert "422" in operation["responses"]
            assert list(operation["responses"]["200"]["content"]) == [route.kind]
            assert {str(status) for status in route.problems} <= set(operation["responses"])
    assert json.dumps(described).count("HTTPValidationError") == 0


def test_the_page_is_served_from_the_package(client):
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "http" not in page.text.replace("http-equiv", "")
    style = client.get("/static/studio.css")
    assert client.get("/static/studio.css", headers={"if-none-match": style.headers["etag"]}).status_code == 304


def test_other_names_other_sites_and_long_bodies_are_refused(folder):
    studio, _ = open_studio(folder, read_only=True)
    app = build_app(studio, hosts=frozenset({"localhost"}))
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/api/health").json() == {"alive": True}
        assert "default-src 'none'" in client.get("/api/health").headers["content-security-policy"]
        assert client.get("/api/health", headers={"host": "evil.example"}).status_code == 421
        other = client.post("/api/review/undo", headers={"origin": "http://evil.example"})
        assert other.status_code == 403
        assert client.put("/api/review/0", content=b"x" * (2**20 + 1)).status_code == 413


def test_others_must_show_the_token(folder):
    studio, _ = open_studio(folder, read_only=True)
    with TestClient(build_app(studio, token="secret"), base_url="http://photos.example") as client:
        assert client.get("/api/health").status_code == 401
        assert client.get("/api/health", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/api/health", headers={"authorization": "Bearer secret"}).status_code == 200
        entered = client.get("/?token=secret", follow_redirects=False)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in entered.headers["set-cookie"]
        assert client.get("/api/health").status_code == 200
