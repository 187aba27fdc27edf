"""Make which.svg, the decision diagram: `.venv/bin/python -m docs.images.make_which`."""

from pathlib import Path

from demo.draw import line, standalone, text

# What a row is; the answers to one question about it, and the estimator of each.
TREE = [
    (
        ["numbers and", "categories"],
        [
            ("columns interact, or unknown", "TabularGPRegressor, TabularGPClassifier"),
            ("one readable curve per column", "IntersectionGP behind MinMaxScaler"),
            ("jumps at thresholds", "boosted trees, random forest (scikit-learn)"),
        ],
    ),
    (
        ["counts, fractions,", "a histogram"],
        [
            ("probabilities or intervals", "IntersectionGPClassifier, -Regressor"),
            ("the model must stay linear", "AdditiveChi2Map, ExpChi2Sampler"),
            ("neighbouring bins are alike", "sinkhorn_distances, MetricKNNClassifier"),
            ("fragments of a molecule", "MinMaxGPRegressor, MinMaxGPClassifier"),
        ],
    ),
    (
        ["a covariance matrix,", "a trial of channels"],
        [
            ("probabilities matter", "SPDGPClassifier"),
            ("many trials", "TangentSpace and a linear model"),
            ("few trials, or a stream", "MDM"),
        ],
    ),
    (
        ["an image, a set of", "local features"],
        [("first a histogram", "BagOfVisualWords, FisherVector, shape_context")],
    ),
    (
        ["data larger", "than memory"],
        [
            ("one pass is affordable", "PCARidge, MomentLasso"),
            ("rows must stay, but small", "ProductQuantizer and BundleSVC"),
        ],
    ),
]
ROW, LEFT, MIDDLE, RIGHT, WIDTH = 38, 20, 230, 510, 890


def box(x: float, y: float, width: float, words: list[str], colour: str) -> str:
    height = 14 + 17 * len(words)
    lines = "".join(
        text(x + 10, y - height / 2 + 20 + 17 * k, word, size=14, colour="")
        for k, word in enumerate(words)
    )
    return (
        f'<rect class="{colour}" fill-opacity="0.12" x="{x:g}" y="{y - height / 2:g}" '
        f'width="{width:g}" height="{height:g}" rx="6"/>{lines}'
    )


def curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return (
        f'<path class="line" fill="none" style="fill:none" stroke-width="1.2" '
        f'd="M{x1:g},{y1:g} C{middle:g},{y1:g} {middle:g},{y2:g} {x2:g},{y2:g}"/>'
    )


def picture() -> str:
    body, y = [], 64.0
    for x, heading in ((LEFT, "A row is ..."), (MIDDLE, "and ..."), (RIGHT, "Take")):
        body.append(text(x + 10, 28, heading, size=14))
    for kind, answers in TREE:
        centre = y + ROW * (len(answers) - 1) / 2
        for answer, estimator in answers:
            body += [curve(LEFT + 170, centre, MIDDLE, y), line(MIDDLE + 250, y, RIGHT, y, "line")]
            body += [box(MIDDLE, y, 250, [answer], "peer"), box(RIGHT, y, 360, [estimator], "gp")]
            y += ROW
        body.append(box(LEFT, centre, 170, kind, "peer"))
        y += 18
    words = "; ".join(f"{' '.join(k)}: {a}: {e}" for k, answers in TREE for a, e in answers)
    return standalone(WIDTH, y - 16, f"Decision diagram. {words}.", "".join(body))


Path(__file__).with_name("which.svg").write_text(picture(), encoding="utf-8")
