"""The backbone of the demonstration gives the features that it was made for, and comes back from its spec."""

import torch

from manyhot.backbones import create_backbone, rebuild
from manyhot.data import digit_scenes, template_features


def test_features_are_those_of_the_templates():
    scenes = digit_scenes(20, seed=0)
    pixels = (255 * scenes.images).round().to(torch.uint8)
    backbone = create_backbone("digit_templates")
    features = backbone(pixels.unsqueeze(1).expand(-1, 3, -1, -1))
    torch.testing.assert_close(features, template_features(pixels.float() / 255))
    assert backbone.width == features.shape[1] == 200


def test_it_is_rebuilt_empty_and_takes_its_state():
    backbone = create_backbone("digit_templates", size=40)
    again = rebuild(backbone.spec)
    pixels = torch.randint(0, 256, (3, 3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert again.preprocessing == backbone.preprocessing
    assert not torch.equal(again(pixels), backbone(pixels))
    again.load_state_dict(backbone.state_dict())
    assert torch.equal(again(pixels), backbone(pixels))
