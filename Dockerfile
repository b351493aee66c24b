# The image: one static program, the project that it serves, and nothing else. `docker compose up` builds and starts it.
# Inside it there is no shell and no package manager, and the program runs as a user without a name or rights.

FROM rust:1.95-bookworm AS build
WORKDIR /sources
COPY . .
RUN target=$(rustc -vV | sed -n "s/host: //p") \
 && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --package windlass-app --bin windlass \
    --features windlass-app/documents,windlass-app/postgres,windlass-app/typescript --target "$target" \
 && packaging/image/rootfs.sh "target/$target/release/windlass" /image

FROM scratch
COPY --from=build /image/ /
USER 65532:65532
WORKDIR /agent
VOLUME ["/data"]
EXPOSE 8080
ENV WINDLASS_SERVER_LISTEN=0.0.0.0:8080 WINDLASS_FOLDERS_DATA=/data
# The program asks itself: nothing else in here could.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/windlass", "healthcheck"]
ENTRYPOINT ["/windlass"]
CMD ["serve", "--first-key"]
