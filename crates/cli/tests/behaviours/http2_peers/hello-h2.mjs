// A service of one answer, as node:http2 has it, without TLS by prior knowledge. It prints its port.
import { createServer } from 'node:http2';

const server = createServer((request, response) => {
  if (request.url !== '/') {
    response.writeHead(404);
    response.end('not found');
    return;
  }
  response.end('Hello, World!');
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
