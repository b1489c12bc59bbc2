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
  stream.respondWithFile(path.join(process.argv[2], headers[':path']), {}, { onError: () => stream.close() });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
