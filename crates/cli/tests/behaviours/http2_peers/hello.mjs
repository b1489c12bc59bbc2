// A service of one answer, as node:http has it. It prints its port.
import { createServer } from 'node:http';

const server = createServer((request, response) => {
  if (request.url !== '/') {
    response.statusCode = 404;
    response.end('not found');
    return;
  }
  response.end('Hello, World!');
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
