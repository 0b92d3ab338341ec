# syntax=docker/dockerfile:1
# The image of Bursar's operator. test/image holds it to go.mod, the Makefile and .ko.yaml.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
# Shown by `bursar version`.
ARG VERSION=unknown
ARG TARGETOS TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-X main.version=$VERSION" -o /bursar ./cmd/bursar-operator

FROM gcr.io/distroless/static:nonroot
COPY --from=build /bursar /usr/local/bin/bursar
# By its number, so that Kubernetes can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/bursar"]
CMD ["operator"]
