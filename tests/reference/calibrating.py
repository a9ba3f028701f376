"""How the families of test vectors of calibrators are computed: case in, named results out."""

import manyhot as mh


def temperature(case):
    scores = case.tensor("scores")
    if case.params["link"] == "sigmoid":
        targets, calibrator = case.targets, mh.TemperatureScaling(sharing="all", link=mh.SigmoidLink())
        loss = mh.BinaryCrossEntropyLoss()
    else:
        targets, calibrator = case.one_hot(scores.shape[1]), mh.calibrate.SoftmaxTemperature()
        loss = mh.losses.SoftmaxCrossEntropyLoss()
    fitted = calibrator.fit(scores, targets).temperature.squeeze()
    exact = scores.double()
    return {"T": fitted, "nll_at_T": loss(exact / fitted, targets), "nll_at_1": loss(exact, targets)}


COVERED = {"temperature": temperature}
