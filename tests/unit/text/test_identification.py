"""The language of texts in Latin letters is told of what somebody says taken together."""

from typing import Final

import pytest

from memory_agent.text.writing import latin_language

SENTENCES: Final = {
    "english": (
        "I finally finished knitting the green scarf.",
        "The invoice for March is still unpaid.",
        "We saw two foxes near the river last night.",
        "My sister plays the cello in an orchestra.",
        "The soup needs a little more pepper.",
    ),
    "german": (
        "Ich habe endlich den grünen Schal fertig gestrickt.",
        "Die Rechnung für März ist noch offen.",
        "Wir haben gestern Nacht am Fluss zwei Füchse gesehen.",
        "Meine Schwester spielt Cello in einem Orchester.",
        "An die Suppe muss noch etwas Pfeffer.",
    ),
    "french": (
        "J'ai enfin fini de tricoter l'écharpe verte.",
        "La facture de mars n'est toujours pas payée.",
        "Nous avons vu deux renards près de la rivière.",
        "Ma sœur joue du violoncelle dans un orchestre.",
        "Il manque un peu de poivre dans la soupe.",
    ),
    "spanish": (
        "Por fin terminé de tejer la bufanda verde.",
        "La factura de marzo sigue sin pagar.",
        "Anoche vimos dos zorros cerca del río.",
        "Mi hermana toca el violonchelo en una orquesta.",
        "A la sopa le falta un poco de pimienta.",
    ),
    "russian": (
        "Я наконец довязала зелёный шарф.",
        "Счёт за март всё ещё не оплачен.",
        "Вчера ночью мы видели у реки двух лис.",
        "Моя сестра играет на виолончели в оркестре.",
        "В суп надо добавить немного перца.",
    ),
    "korean": (
        "초록색 목도리를 드디어 다 떴어.",
        "3월 청구서가 아직 미납이야.",
        "어젯밤에 강가에서 여우 두 마리를 봤어.",
        "언니는 오케스트라에서 첼로를 연주해.",
        "국에 후추를 조금 더 넣어야겠어.",
    ),
}


@pytest.mark.parametrize(
    ("language", "code"), [("english", "en"), ("german", "de"), ("french", "fr"), ("spanish", "es")]
)
def test_a_few_sentences_together_tell_their_language(language: str, code: str) -> None:
    assert latin_language([*SENTENCES[language], *SENTENCES["korean"]]) == code


def test_too_little_text_and_other_scripts_tell_none() -> None:
    assert latin_language(SENTENCES["german"][:2]) == ""
    assert latin_language(SENTENCES["russian"] * 5) == ""
    assert latin_language([]) == ""


def test_a_long_paste_does_not_outweigh_what_else_is_said() -> None:
    paste = " ".join(SENTENCES["english"] * 50)
    assert latin_language([paste, *SENTENCES["german"] * 4]) == "de"
