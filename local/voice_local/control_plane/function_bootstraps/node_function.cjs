// Runs one invocation of a Node.js function: `node node_function.cjs CODE_DIR HANDLER RESULT_FILE`, the event on stdin.
//
// What the handler returns, or the error it threw in the form Lambda reports it, is written to RESULT_FILE as JSON.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const https = require("node:https");
const path = require("node:path");
const { pathToFileURL } = require("node:url");

const [codeDir, handlerName, resultFile] = process.argv.slice(2);
const controlPlane = new URL(process.env.AWS_ENDPOINT_URL);

// CloudFormation's response URLs are https on port 443, and CDK's handlers send their answer there whatever port the
// URL names. Nothing on a laptop may listen on 443 of loopback, so that one address means the control plane.
const encrypted = https.request;
https.request = (options, ...rest) => {
  const host = options && (options.hostname || options.host);
  const port = options && options.port;
  if (host === controlPlane.hostname && (!port || Number(port) === 443 || String(port) === controlPlane.port)) {
    return http.request(
      { method: options.method, headers: options.headers, path: options.path, host, port: controlPlane.port },
      ...rest,
    );
  }
  return encrypted(options, ...rest);
};

const deadline = Date.now() + Number(process.env.VOICE_LOCAL_TIMEOUT_SECONDS) * 1000;
const context = {
  callbackWaitsForEmptyEventLoop: true,
  functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
  functionVersion: "$LATEST",
  memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
  invokedFunctionArn: process.env.VOICE_LOCAL_FUNCTION_ARN,
  awsRequestId: process.env.VOICE_LOCAL_REQUEST_ID,
  logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
  logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
  getRemainingTimeInMillis: () => Math.max(0, deadline - Date.now()),
  done: (error, value) => finish(error, value),
  succeed: (value) => finish(null, value),
  fail: (error) => finish(error || new Error("the handler failed")),
};

let finished = false;
function finish(error, value) {
  if (finished) return;
  finished = true;
  if (error) {
    console.error(error);
    const told = { errorMessage: String(error.message ?? error), errorType: error.name ?? "Error" };
    fs.writeFileSync(resultFile, JSON.stringify(told));
    process.exitCode = 1;
  } else {
    fs.writeFileSync(resultFile, JSON.stringify(value === undefined ? null : value));
  }
}

async function load() {
  const dot = handlerName.lastIndexOf(".");
  const file = path.resolve(codeDir, handlerName.slice(0, dot));
  const name = handlerName.slice(dot + 1);
  const found = [".js", ".mjs", ".cjs"].map((ending) => file + ending).find((candidate) => fs.existsSync(candidate));
  if (found === undefined) throw new Error(`There is no module ${handlerName.slice(0, dot)} in the function's code`);
  let loaded;
  try {
    loaded = require(found);
  } catch (error) {
    if (error.code !== "ERR_REQUIRE_ESM") throw error;
    loaded = await import(pathToFileURL(found).href);
  }
  if (typeof loaded[name] !== "function") throw new Error(`${handlerName} is not a function`);
  return loaded[name];
}

async function main() {
  const event = JSON.parse(fs.readFileSync(0, "utf8"));
  process.chdir(codeDir);
  const handler = await load();
  const answer = handler(event, context, finish);
  if (answer && typeof answer.then === "function") finish(null, await answer);
}

main().catch((error) => finish(error));
