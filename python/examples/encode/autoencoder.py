"""A small convolutional autoencoder: pictures [N, 3, H, W] to latents [N, 4, H/8, W/8] and back."""

import torch


def _down(before, after):
    return [torch.nn.Conv2d(before, after, 4, 2, 1), torch.nn.SiLU()]


def _up(before, after):
    return [torch.nn.ConvTranspose2d(before, after, 4, 2, 1), torch.nn.SiLU()]


class Autoencoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(*_down(3, 16), *_down(16, 32), *_down(32, 32), torch.nn.Conv2d(32, 4, 1))
        self.decoder = torch.nn.Sequential(*_up(4, 32), *_up(32, 32), *_up(32, 16), torch.nn.Conv2d(16, 3, 3, 1, 1))

    def forward(self, pictures):
        return self.decoder(self.encoder(pictures))


def pictures_of(frames):
    """uint8 frames [B, T, H, W, 3] as pictures [B * T, 3, H, W] from -1 to 1."""
    return frames.flatten(0, 1).permute(0, 3, 1, 2).float() / 127.5 - 1
