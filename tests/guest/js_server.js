// SPDX-License-Identifier: Apache-2.0
// AgentService on grpc-js: `node js_server.js FOLDER NONCE MAX_AGE_MS`, with its packages on NODE_PATH and the .proto files in
// STEPSCOPE_PROTO. Prints its port. What it does: python_server.py.
const fs = require("fs");
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [folder, nonce, maxAgeMs] = process.argv.slice(2);
const { stepscope } = grpc.loadPackageDefinition(
  loader.loadSync("stepscope/v1/agent.proto", { includeDirs: [process.env.STEPSCOPE_PROTO], longs: Number }),
);

// The position behind it, or undefined for a hole.
function append(request) {
  const file = path.join(folder, `${request.ring || 0}-${request.generation || 0}`);
  const stored = fs.existsSync(file) ? fs.statSync(file).size : 0;
  const from = request.from || 0;
  if (from > stored) return undefined;
  fs.appendFileSync(file, request.data.subarray(stored - from));
  return fs.statSync(file).size;
}

function push(stream) {
  const [given] = stream.metadata.get("stepscope-nonce-bin");
  if (!given || given.toString("hex") !== nonce) {
    return stream.emit("error", { code: grpc.status.UNAUTHENTICATED, details: "this nonce is unknown here" });
  }
  stream.on("data", (request) => {
    const position = append(request);
    if (position === undefined) {
      return stream.emit("error", { code: grpc.status.FAILED_PRECONDITION, details: "a hole" });
    }
    stream.write({ stored: [{ ring: request.ring, generation: request.generation, position }] });
  });
  stream.on("end", () => stream.end());
}

const age = Number(maxAgeMs);
const options = age ? { "grpc.max_connection_age_ms": age, "grpc.max_connection_age_grace_ms": 1000 } : {};
const server = new grpc.Server(options);
server.addService(stepscope.v1.AgentService.service, { Push: push });
server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port);
});
