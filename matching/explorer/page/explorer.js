// The explorer's page. Text from outside is only ever set as text.

const WAIT = 120; // milliseconds that the slider must rest
const SHOWN_PICKS = 12;
const GRADES = {
  intensity: "",
  draws: "Its intensity is only how often it is drawn: the slider goes from the mildest to the hardest of nine draws.",
  none: "This edit has one form.",
};
const at = (id) => document.getElementById(id);
const state = { about: null, picture: null, draw: 0, picked: 0, asked: null, timer: 0 };

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function thumbnail(kind, id) {
  const url = `/api/pictures/${kind}/${id.split("/").map(encodeURIComponent).join("/")}`;
  const image = element("img", { src: url, alt: `${kind} ${id}`, loading: "lazy" });
  image.onerror = () => image.replaceWith(element("div", { className: "missing", textContent: "no picture" }));
  return image;
}

async function request(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The explorer does not answer. Is it still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.message ?? `The explorer answered with error ${response.status}.`);
  return body;
}

function tell(message) {
  at("message").hidden = !message;
  at("message").textContent = message ?? "";
}

async function attempt(work) {
  tell();
  at("answer").classList.add("busy");
  try {
    await work();
    at("answer").classList.remove("busy");
  } catch (error) {
    if (error.name === "AbortError") return; // a later question is on its way
    at("answer").classList.remove("busy");
    tell(error.message);
  }
}

const send = (file) =>
  attempt(async () => {
    if (!file) return;
    if (file.size > state.about.largest) throw new Error(`The file is larger than ${Math.floor(state.about.largest / 2 ** 20)} MB.`);
    const headers = { "Content-Type": "application/octet-stream" };
    state.picture = (await request("/api/pictures", { method: "POST", headers, body: file })).picture;
    await ask();
  });

const pick = (id) =>
  attempt(async () => {
    const url = `/api/picks/${id.split("/").map(encodeURIComponent).join("/")}`;
    state.picture = (await request(url, { method: "POST" })).picture;
    await ask();
  });

async function ask() {
  state.asked?.abort();
  state.asked = new AbortController();
  const question = { picture: state.picture, edit: at("edit").value || null, intensity: Number(at("intensity").value), draw: state.draw };
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal: state.asked.signal };
  show(await request("/api/answers", options));
}

function changed() {
  clearTimeout(state.timer);
  if (state.picture) state.timer = setTimeout(() => attempt(ask), WAIT);
}

function show(answer) {
  at("hint").hidden = true;
  at("result").hidden = at("query").hidden = false;
  at("edited").src = answer.picture;
  at("record").textContent = answer.record.map(described).join(" · ") || (at("edit").value ? "no edit was drawn" : "");
  showVerdict(answer);
  at("nearest").replaceChildren(...answer.nearest.map(card));
  at("normalization").replaceChildren(...normalization(answer.normalization));
  at("time").textContent = `Answered in ${Math.round(answer.seconds * 1000)} ms.`;
}

function described({ edit, function: used, ...parameters }) {
  const short = (value) => (typeof value === "number" ? String(Math.round(value * 1000) / 1000) : Array.isArray(value) ? value.map(short).join(" ") : String(value));
  const listed = Object.entries(parameters).map(([name, value]) => `${words(name)} ${short(value)}`);
  return [words(edit) === words(used) ? words(edit) : `${words(edit)} (${words(used)})`, ...listed].join(", ");
}

function showVerdict({ nearest, threshold }) {
  const copies = nearest.filter((item) => item.copy).length;
  const [head, text] =
    threshold === null
      ? ["No threshold", state.about.uncalibrated]
      : [
          copies ? `${copies} ${copies === 1 ? "reference is" : "references are"} copied` : "Copies nothing that is known",
          `A copy is near enough by its vector, for ${state.about.rate} false alarms per query, or confirmed by its features. ` +
            "Of each: its class and certainty, 0 to 100; false alarms per query at its distance.",
        ];
  at("verdict").className = copies ? "verdict yes" : "verdict";
  at("verdict").replaceChildren(element("b", { textContent: head }), element("span", { textContent: text }));
}

function card(item) {
  const details = item.class ? [item.reason] : [];
  const word = item.class ? `${item.class}, ${item.certainty} of 100` : state.about.threshold === null ? "near" : "no copy";
  if (item.view) details.push(`found by a ${item.view} of the picture`);
  if (item.false_alarms !== null) details.push(`false alarms ${item.false_alarms < 1 ? item.false_alarms.toPrecision(1) : "over 1"}`);
  return element(
    "div",
    { className: item.copy ? "pair copy" : "pair", title: `score ${figure(item.score)}, before normalisation ${figure(item.unnormalized)}` },
    thumbnail("reference", item.id),
    element("div", {}, element("b", { textContent: word }), ` ${item.id}`),
    ...details.map((textContent) => element("div", { className: "soft", textContent })),
  );
}

function normalization(done) {
  if (!done) return [element("p", { className: "note", textContent: "This run searches queries as they are." })];
  const way = done.method === "method1" ? "stretched" : "pushed away from its training neighbours";
  const before = done.first.map((item) => `Before it, ${item.id} was nearest with ${figure(item.score)}.`).join("");
  const text =
    `C = ${done.similarity.toFixed(3)}, the mean cosine to the nearest training images: the more the query looks like what is common, ` +
    `the further it is moved. It was ${way} by ${done.moved.toFixed(3)} (β ${done.beta}), to the length ${done.length.toFixed(3)}. ${before}`;
  const cards = done.training.map((item) =>
    element(
      "div",
      { className: "pair" },
      ...(item.shown ? [thumbnail("training", item.id)] : []),
      element("div", {}, element("b", { textContent: item.cosine.toFixed(3) }), ` ${item.id}`),
      ...(item.shown ? [] : [element("div", { className: "soft", textContent: "a vector without a picture, which the descriptor brings along" })]),
    ),
  );
  return [
    element("h2", { textContent: `What normalisation did: method ${done.method.slice(-1)}` }),
    element("p", { textContent: text }),
    element("div", { className: "gallery" }, ...cards),
  ];
}

function showPicks() {
  const { queries } = state.about;
  const shown = Array.from({ length: Math.min(SHOWN_PICKS, queries.length) }, (_, place) => queries[(state.picked + place) % queries.length]);
  state.picked += SHOWN_PICKS;
  at("picks").replaceChildren(
    ...shown.map((id) => {
      const button = element("button", { type: "button", title: id, onclick: () => pick(id) }, thumbnail("query", id));
      button.setAttribute("aria-label", `query ${id}`);
      return button;
    }),
  );
}

const figure = (value) => value.toFixed(3).replace(/^-0\.000$/, "0.000").replace("-", "−");
const words = (name) => name.replaceAll("_", " ");

function showEdits() {
  const groups = Object.groupBy(state.about.edits, (edit) => edit.group);
  for (const [group, edits] of Object.entries(groups)) {
    const options = edits.map((edit) =>
      element("option", { value: edit.name, textContent: edit.name === "composition" ? "random composition" : words(edit.name), disabled: !edit.usable }),
    );
    at("edit").append(...(group ? [element("optgroup", { label: group }, ...options)] : options));
  }
}

function chosen() {
  const edit = state.about.edits.find((each) => each.name === at("edit").value);
  at("intensity").disabled = at("again").disabled = !edit || edit.grade === "none";
  at("grade").textContent = edit ? GRADES[edit.grade] : "";
  changed();
}

function listen() {
  at("file").onchange = (event) => {
    send(event.target.files[0]);
    event.target.value = ""; // so that the same file can be chosen again
  };
  at("edit").onchange = chosen;
  at("intensity").oninput = () => {
    at("shown").textContent = Number(at("intensity").value).toFixed(2);
    changed();
  };
  at("again").onclick = () => {
    state.draw += 1;
    changed();
  };
  at("more").onclick = showPicks;
  document.ondragover = (event) => {
    event.preventDefault();
    at("drop").classList.add("over");
  };
  document.ondragleave = () => at("drop").classList.remove("over");
  document.ondrop = (event) => {
    event.preventDefault();
    at("drop").classList.remove("over");
    send(event.dataTransfer.files[0]);
  };
}

await attempt(async () => {
  state.about = await request("/api/about");
  document.title = `Explorer: ${state.about.title}`;
  at("about").textContent = `${state.about.title}: ${state.about.references.toLocaleString("en")} references`;
  showEdits();
  showPicks();
  listen();
});
