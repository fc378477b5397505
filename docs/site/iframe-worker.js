// SPDX-License-Identifier: Apache-2.0
// Browsers start no workers for pages that are read as files. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const worker = this.frame.contentWindow;
      worker.document.open();
      worker.document.close();
      worker.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = worker.document.createElement("script");
      this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
      script.src = url;
      worker.document.documentElement.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
