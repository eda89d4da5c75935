module stacks

go 1.12
