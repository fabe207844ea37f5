import pytest

from appliance.cli.main import main
from tests.cli.fake_server import body, fake_appliance, refusal


@pytest.mark.parametrize("verb", ["load", "unload", "pin", "unpin"])
def test_override_is_posted_to_the_model(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(body(model="org/chat", override=None)) as fake:
        code = main([verb, "org/chat", "--url", fake.url])

    assert code == 0
    assert capsys.readouterr().out == "org/chat: as the manifest says\n"
    assert fake.asked[0].method == "POST"
    assert fake.asked[0].path == f"/admin/v1/models/org%2Fchat/{verb}"


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("must", "chat: in memory, until"),
        ("may", "chat: in memory when it is asked for, until"),
        ("must_not", "chat: not in memory, until"),
        ("new", "chat: new"),
    ],
)
def test_override_is_told_in_words(
    override: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_appliance(body(model="chat", override=override)) as fake:
        main(["load", "chat", "--url", fake.url])

    assert capsys.readouterr().out.startswith(told)


def test_override_of_an_unknown_model_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(refusal(404, "The model 'chta' does not exist.")) as fake:
        code = main(["pin", "chta", "--url", fake.url])

    assert code == 1
    assert capsys.readouterr().err == "vllm-mlx: The model 'chta' does not exist.\n"


@pytest.mark.parametrize(("is_changed", "ending"), [(True, "force."), (False, "as before.")])
def test_reload_says_which_revision_is_in_force(
    ending: str, capsys: pytest.CaptureFixture[str], *, is_changed: bool
) -> None:
    answer = body(number=4, revision="r4", is_changed=is_changed)

    with fake_appliance(answer) as fake:
        code = main(["reload", "--url", fake.url])

    assert code == 0
    assert capsys.readouterr().out.strip().endswith(ending)
    assert (fake.asked[0].method, fake.asked[0].path) == ("POST", "/admin/v1/reload")


def test_reload_of_a_wrong_file_names_the_appliances_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = {"file": "/srv/vllm-mlx.yaml", "line": 2, "path": "models", "reason": "is wrong"}

    with fake_appliance(refusal(422, "Wrong.", [problem])) as fake:
        code = main(["reload", "--url", fake.url])

    assert code == 1
    assert capsys.readouterr().err == "/srv/vllm-mlx.yaml:2: models: is wrong\n"
