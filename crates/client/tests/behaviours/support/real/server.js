// A server of HTTP/2 in clear text: files of the folder that it is started with, and POST comes back with its trailers.
const fs = require('node:fs');
const http2 = require('node:http2');
const path = require('node:path');

const server = http2.createServer();
server.on('stream', (stream, headers) => {
  stream.on('error', () => {});
  if (headers[':method'] === 'POST') {
    let trailers = {};
    stream.on('trailers', (fields) => { trailers = fields; });
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': trailers['x-sum'] ?? '' }));
    stream.pipe(stream);
    return;
  }
  if (headers[':method'] === 'HEAD') {
    stream.respond({ ':status': 200, 'content-length': 5 }, { endStream: true });
    return;
  }
  // Not respondWithFile: Node 20 crashes in it now and then when the peer resets the stream.
  const file = fs.createReadStream(path.join(process.argv[2], headers[':path']));
  file.on('error', () => stream.close());
  stream.on('close', () => file.destroy());
  stream.respond({ ':status': 200 });
  file.pipe(stream);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
