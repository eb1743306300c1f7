"""What PyTorch says of its build."""

git_version = "fastgrad"
