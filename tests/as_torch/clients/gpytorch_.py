"""A Gaussian process that is fitted."""

import warnings

import torch

warnings.simplefilter("ignore")
import gpytorch  # noqa: E402
from gpytorch.kernels import RBFKernel, ScaleKernel  # noqa: E402


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), ScaleKernel(RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


x = torch.linspace(0, 1, 10)
y = (x * 6).sin()
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(x, y, likelihood)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for _ in range(3):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 3))
model.eval()
likelihood.eval()
with torch.no_grad():
    prediction = likelihood(model(torch.tensor([0.05, 0.55])))
print(prediction.mean.numpy().round(2), prediction.variance.numpy().round(2))
