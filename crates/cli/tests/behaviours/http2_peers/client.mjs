// A client of HTTP/2: bodies both ways, trailers, requests that are cancelled, and a server that goes away in the middle. Its
// arguments are the URL of `anywire serve`, and over TLS the file of the certificate to trust.
import { once } from "node:events";
import fs from "node:fs";
import http2 from "node:http2";

const TOTAL = 100 << 20;
const BLOCK = Buffer.from(Array.from({ length: 65_537 }, (_, at) => (at * 31) % 251));

const [url, certificate] = process.argv.slice(2);
const session = http2.connect(url, certificate ? { ca: fs.readFileSync(certificate) } : {});
session.on("error", (error) => fail(`the connection failed: ${error}`));

await small();
await echo(16);
await echo(TOTAL / BLOCK.length);
for (let turn = 0; turn < 10; turn += 1) {
  await cancel();
  await small();
}
await echo(100, async () => {
  const gone = once(session, "goaway");
  console.log("ready");
  const [code] = await gone;
  if (code !== 0) fail(`GOAWAY with ${code}`);
});
if (!session.closed) await once(session, "close");
console.log("done");

async function small() {
  const stream = session.request({ ":path": "/" });
  const [headers] = await once(stream, "response");
  const body = await collect(stream);
  if (headers[":status"] !== 200 || body !== "Hello, World!") fail(`${headers[":status"]} ${body}`);
}

// The body comes back while it goes, and its trailers behind it.
async function echo(blocks, inTheMiddle = async () => {}) {
  const stream = session.request({ ":path": "/echo", ":method": "POST" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "7" }));
  let trailers;
  stream.on("trailers", (fields) => (trailers = fields));
  let read = 0;
  stream.on("data", (piece) => {
    for (let at = 0; at < piece.length; ) {
      const begin = read % BLOCK.length;
      const length = Math.min(piece.length - at, BLOCK.length - begin);
      if (piece.compare(BLOCK, begin, begin + length, at, at + length)) fail(`it differs after ${read} bytes`);
      read += length;
      at += length;
    }
  });
  const ended = once(stream, "end");
  blocks = Math.ceil(blocks);
  for (let block = 0; block < blocks; block += 1) {
    if (block === blocks >> 1) await inTheMiddle();
    if (!stream.write(BLOCK)) await once(stream, "drain");
  }
  stream.end();
  await ended;
  if (read !== blocks * BLOCK.length) fail(`${read} bytes of ${blocks * BLOCK.length}`);
  if (trailers?.["x-sum"] !== "7") fail(`trailers ${JSON.stringify(trailers)}`);
}

async function cancel() {
  const stream = session.request({ ":path": `/bytes/${TOTAL}` });
  await once(stream, "data");
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await once(stream, "close");
}

async function collect(stream) {
  let text = "";
  for await (const piece of stream) text += piece;
  return text;
}

function fail(why) {
  console.error(why);
  process.exit(1);
}
