const { once } = require("node:events");
const { execFile, fork, spawnSync } = require("node:child_process");
const { Worker, isMainThread, parentPort } = require("node:worker_threads");
const cluster = require("node:cluster");
const dgram = require("node:dgram");
const fs = require("node:fs");
const http = require("node:http");
const net = require("node:net");

async function echo(type, text) {
    const socket = dgram.createSocket(type);
    socket.send(text, 7, process.env.PEER);
    const [message, from] = await once(socket, "message");
    socket.close();
    await once(socket, "close");
    return `${message} from ${from.address}:${from.port}`;
}

async function main() {
    for (let n = 1; n <= 5; n++)
        console.log(await echo("udp4", `datagram ${n}`));
    const all = await Promise.all([...Array(20).keys()].map((n) => echo("udp4", `parallel ${n}`)));
    console.log(all.length, all[19]);
    const connected = dgram.createSocket("udp4");
    connected.connect(7, process.env.PEER);
    await once(connected, "connect");
    connected.send(["in ", "parts"]);
    console.log(`${(await once(connected, "message"))[0]}`, connected.remoteAddress().port);
    connected.close();

    const server = http.createServer((request, response) => response.end(`you asked for ${request.url}`));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    for (const path of ["/a", "/b"])
        console.log(await (await fetch(`http://127.0.0.1:${server.address().port}${path}`)).text());
    server.close(); server.closeAllConnections();

    const worker = new Worker(__filename);
    worker.postMessage("of a worker");
    console.log((await once(worker, "message"))[0]);
    await worker.terminate();

    console.log(spawnSync("cat", { input: "through cat" }).stdout.toString());
    console.log(spawnSync("sh", ["-c", "exit 3"]).status);
    const child = fork(__filename, ["child"]);
    child.send("to a child");
    console.log((await once(child, "message"))[0]);
    child.disconnect();
    console.log("child", (await once(child, "exit"))[0]);

    const unix = net.createServer((s) => s.end("over a unix socket")).listen("socket");
    await once(unix, "listening");
    const client = net.connect("socket");
    console.log(`${(await once(client, "data"))[0]}`);
    client.end(); unix.close();
    await fs.promises.writeFile("file", "text");
    console.log(await fs.promises.readFile("file", "utf8"));
    const timed = new Promise((done) => setTimeout(done, 20, "timer"));
    console.log(await timed);
    process.exitCode = 0;
}

if (!isMainThread)
    parentPort.once("message", async (text) => parentPort.postMessage(await echo("udp4", text)));
else if (process.argv[2] === "child")
    process.once("message", async (text) => process.send(await echo("udp4", text)));
else
    main();
