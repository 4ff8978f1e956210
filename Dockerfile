# Images of Giveway for those who build with a container daemon; `make images` needs none and makes smaller ones.
#   docker build --build-arg PROGRAM=giveway-operator --tag giveway-operator .
#   docker build --build-arg PROGRAM=giveway-webhook --tag giveway-webhook .
#   docker build --build-arg PROGRAM=kubectl-giveway --tag giveway-cli .
# `make kind-up` runs these commands, with podman or nerdctl if there is no docker.
# The version of the compiler that packaging/compiler.txt names; a test compares them.
ARG RUST=1.89.0
FROM docker.io/library/rust:${RUST}-bookworm AS build
WORKDIR /giveway
COPY . .
RUN packaging/static.sh && mkdir /programs && cp target/*/ship/giveway-operator target/*/ship/giveway-webhook target/*/ship/kubectl-giveway /programs/

FROM scratch
ARG PROGRAM
COPY LICENSE /
COPY --from=build /programs/${PROGRAM} /usr/bin/
# No shell expands a variable in an entrypoint, so every image finds its program under this name, too.
COPY --from=build /programs/${PROGRAM} /entrypoint
ENV PATH=/usr/bin
USER 65532:65532
ENTRYPOINT ["/entrypoint"]
