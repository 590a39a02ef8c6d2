// What Lambda adds to inline Node.js code: sends a custom resource's answer.
"use strict";
const https = require("https");

exports.SUCCESS = "SUCCESS";
exports.FAILED = "FAILED";

exports.send = (event, context, responseStatus, responseData, physicalResourceId, noEcho) =>
  new Promise((resolve, reject) => {
    const body = JSON.stringify({
      Status: responseStatus,
      Reason: "See the details in CloudWatch Log Stream: " + context.logStreamName,
      PhysicalResourceId: physicalResourceId || context.logStreamName,
      StackId: event.StackId,
      RequestId: event.RequestId,
      LogicalResourceId: event.LogicalResourceId,
      NoEcho: noEcho || false,
      Data: responseData,
    });
    const url = new URL(event.ResponseURL);
    const options = {
      hostname: url.hostname,
      port: 443,
      path: url.pathname + url.search,
      method: "PUT",
      headers: { "content-type": "", "content-length": Buffer.byteLength(body) },
    };
    const request = https.request(options, (response) => {
      response.resume();
      context.done(null, null);
      resolve();
    });
    request.on("error", (error) => {
      context.done(error, null);
      reject(error);
    });
    request.end(body);
  });
