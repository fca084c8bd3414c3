// server.js <address> http|cluster: says hello, by one process or by two workers.
const cluster = require("node:cluster");
const [address, kind] = process.argv.slice(2);

if (kind === "cluster" && cluster.isPrimary) {
    cluster.fork();
    cluster.fork();
} else {
    require("node:http").createServer((request, response) => response.end("hello\n")).listen(8000, address);
}
