// The review page. Text from outside is only ever set as text.

const at = (id) => document.getElementById(id);
const VIEWS = ["pairs", "groups", "series", "decisions"];
const MOST_SERIES = 200; // on the page; matches.csv lists all
const SAID = { copy: "a copy", "not-a-copy": "not a copy", undecided: "undecided" };
const state = { all: null, view: "pairs", list: [], place: 0, pair: null, group: 0, members: null, done: [], closer: false, way: null, asked: 0, working: 0 };

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

async function request(url, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(url, options);
  } catch {
    throw new Error("The review does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.detail ?? `The review answered with error ${response.status}.`);
  return answer;
}

function tell(message) {
  at("message").hidden = !message;
  at("message").textContent = message ?? "";
}

const say = (text) => (at("status").textContent = text);

async function attempt(work) {
  tell();
  state.working += 1; // keys may be pressed while an answer is on its way
  document.body.classList.add("busy");
  try {
    await work();
  } catch (error) {
    tell(error.message);
  }
  state.working -= 1;
  document.body.classList.toggle("busy", state.working > 0);
}

const number = (value, digits = 3) => value.toFixed(digits).replace(/^-(0\.0*)$/, "$1").replace("-", "−");
const bytes = (size) => (size < 1e6 ? `${Math.max(1, Math.round(size / 1e3)).toLocaleString("en")} kB` : `${(size / 1e6).toFixed(1)} MB`);
const picture = (file, size) => `/api/files/${state.all.token}/${file}/${size}`;
const key = (first, second) => (first < second ? `${first} ${second}` : `${second} ${first}`);

function image(file, size, alt) {
  const made = element("img", { src: picture(file.number, size), alt, loading: size === "small" ? "lazy" : "eager" });
  made.onerror = () => made.replaceWith(element("div", { className: "missing", textContent: "no picture" }));
  return made;
}

// Pairs

function fillList() {
  const filter = at("filter").value;
  const pairs = state.all.pairs.filter(([first, second, said]) => !state.gone.has(first) && !state.gone.has(second) && (filter === "all" || (said ?? "undecided") === filter));
  state.list = at("order").value === "sure" ? pairs : pairs.toReversed();
}

function remember(first, second, word) {
  const pair = state.words.get(key(first, second));
  if (pair) pair[2] = word === "undecided" ? null : word;
}

async function showPlace() {
  const pair = state.list[state.place];
  at("pair").hidden = !pair;
  at("no-pair").hidden = Boolean(pair);
  at("previous").disabled = state.place <= 0;
  at("next").disabled = state.place >= state.list.length - 1;
  const left = state.all.pairs.filter(([, , said]) => said === null).length;
  at("place").textContent = pair ? `${(state.place + 1).toLocaleString("en")} of ${state.list.length.toLocaleString("en")}` : "none";
  if (!pair) {
    state.pair = null;
    at("no-pair").textContent = state.all.pairs.length && !left && at("filter").value === "undecided" ? "Every pair is decided." : "There is no such pair.";
    return;
  }
  await showPair(pair[0], pair[1]);
  const next = state.list[state.place + 1];
  if (next) for (const file of next.slice(0, 2)) new Image().src = picture(file, "large");
}

async function showPair(first, second) {
  const asked = ++state.asked;
  const pair = await request(`/api/pairs/${state.all.token}/${first}/${second}`);
  if (asked !== state.asked) return; // a later one is on its way
  Object.assign(state, { pair: { ...pair, first, second }, closer: false, way: null });
  at("pair").hidden = false;
  at("no-pair").hidden = true;
  history.replaceState(null, "", `#pair/${first}/${second}`);
  drawPair();
}

function drawPair() {
  const { pair } = state;
  const { suggestion, decision } = pair, shared = pair.regions.length > 0;
  const names = nameApart(pair.files);
  for (const [side, id] of ["left", "right"].entries()) {
    const file = pair.files[side];
    const kept = suggestion?.file === file.number;
    at(id).replaceChildren(
      element("div", { className: "frame" }, framed(file, side, names[side])),
      element("figcaption", {}, element("b", { textContent: names[side] }), " ", role(file), kept ? element("span", { className: "badge keep", textContent: "suggested to keep" }) : null),
    );
  }
  drawLaid(names);
  for (const [id, word] of [["copy", "copy"], ["no-copy", "not-a-copy"]]) {
    at(id).setAttribute("aria-pressed", String(decision === word));
    at(id).disabled = pair.same_bytes;
  }
  at("said").textContent = pair.same_bytes ? "The same bytes: there is nothing to decide." : decision === "undecided" ? "" : `You said: ${SAID[decision]}.`;
  at("verdict").replaceChildren(...verdict(pair));
  at("closer").hidden = !shared;
  at("closer").setAttribute("aria-pressed", String(state.closer));
  at("of-group").hidden = pair.group === null;
  at("of-group").textContent = `Group ${pair.group}`;
  at("of-group").href = `#group/${pair.group}`;
  for (const [side, place] of ["one", "other"].entries()) at("facts").tHead.querySelector(`.${place}`).textContent = names[side];
  at("facts").tBodies[0].replaceChildren(...facts(pair.files));
}

// One picture laid on the other: with a slider, each in turn, or what differs. `way` says which; null: side by side.
function drawLaid(names) {
  const { way, pair: { laid } } = state;
  at("laid").hidden = !way;
  at("sides").hidden = Boolean(way);
  for (const [id, one] of [["to-laid", "laid"], ["flicker", "flicker"], ["to-differences", "differences"]]) at(id).setAttribute("aria-pressed", String(way === one));
  if (!way) return;
  const [below, above] = laid.frame ? names.toReversed() : names;
  const under = at("under"), over = at("above"), on = way === "flicker" && state.turned;
  Object.assign(under, { src: way === "differences" ? laid.differences : laid.under, alt: way === "differences" ? "what differs" : below });
  Object.assign(over, { src: laid.laid, alt: above, hidden: way === "differences" || (way === "flicker" && !on) });
  const clip = () => {
    const width = Math.min(over.clientWidth, (over.clientHeight * over.naturalWidth) / over.naturalHeight); // the rest of the frame is empty
    over.style.clipPath = way === "laid" ? `inset(0 ${(over.clientWidth + width) / 2 - (width * at("slider").value) / 100}px 0 0)` : "";
  };
  over.onload = clip;
  if (over.naturalWidth) clip();
  at("slider").hidden = way !== "laid";
  at("laid-names").textContent = way === "differences" ? `${laid.differ}.` : way === "flicker" ? (on ? above : below) : `${above}, on the left of the slider, laid on ${below}`;
}

const lay = (way) =>
  attempt(async () => {
    const { pair } = state;
    if (!pair) return;
    if (!pair.laid) pair.laid = (await request(`/api/laid/${state.all.token}/${pair.first}/${pair.second}`)).laid;
    if (state.pair !== pair) return;
    if (!pair.laid) return say("Nothing says how these two could be laid on each other.");
    state.turned = way === "flicker" && state.way === "flicker" && !state.turned;
    state.way = way === state.way && way !== "flicker" ? null : way;
    drawPair();
  });

const role = (file) => (file.reference ? element("span", { className: "badge role", textContent: "reference" }) : "");

// The names of two files, with as many of their folders as tell them apart.
function nameApart(files) {
  const paths = files.map((file) => [...file.folder.split("/"), file.name]);
  for (let parts = 1; ; parts += 1) {
    const names = paths.map((path) => path.slice(-parts).join("/"));
    if (names[0] !== names[1] || parts >= Math.max(...paths.map((path) => path.length))) return names;
  }
}

// The folders of some files from where they part; empty ones if all lie in one folder.
function foldersApart(files) {
  const paths = files.map((file) => file.folder.split("/"));
  const shortest = Math.min(...paths.map((path) => path.length));
  let shared = 0;
  while (shared < shortest && paths.every((path) => path[shared] === paths[0][shared])) shared += 1;
  if (paths.every((path) => path.length === shared)) return files.map(() => "");
  return paths.map((path) => path.slice(Math.min(shared, shortest - 1)).join("/"));
}

const folderLine = (folder) => (folder ? element("p", { className: "folder", textContent: `in ${folder}` }) : null);

// Text whose figures, in brackets, are shown only when they are asked for; names of files may have brackets, too.
const FIGURES = /( \([^()]*(?: of 100| blocks[^()]*| of the picture differ|pixels of \d+)\))/;
const wording = (text) => text.split(FIGURES).map((part, odd) => (odd % 2 ? element("span", { className: "numbers", textContent: part }) : part));

function verdict({ values, regions, suggestion, files }) {
  const parts = [];
  const { threshold } = state.all;
  const { score, expected_false_alarms: alarms, inliers, change, class: kind, reason, certainty, ...others } = values;
  const names = nameApart(files);
  const figures = [];
  if (kind) parts.push(`${kind[0].toUpperCase()}${kind.slice(1)} (${certainty} of 100): ${reason}.`);
  else if (score !== undefined) parts.push(`Score ${number(score)}` + (threshold === null ? "" : `; a copy scores at least ${number(threshold)}`) + ".");
  if (!kind && typeof alarms === "number") parts.push(`False alarms to be expected per query at this score: ${Number(alarms.toPrecision(1))}.`);
  if (regions.length) parts.push(`The frames show what is shared${change ? `; ${names[0]} is ${change}` : ""}.`);
  if (regions.length) figures.push(`${inliers} features agree.`);
  for (const [name, value] of Object.entries(others)) if (value !== null && value !== "") figures.push(`${name.replaceAll("_", " ")}: ${value}.`);
  if (suggestion) parts.push(`Keep ${names[files[0].number === suggestion.file ? 0 : 1]}: ${suggestion.reason}.`);
  if (kind && score !== undefined) figures.push(`Score ${number(score)}.`);
  return [...wording(parts.join(" ")), element("span", { className: "numbers", textContent: ` ${figures.join(" ")}` })];
}

function framed(file, side, alt) {
  const { values, regions } = state.pair;
  const shown = image(file, "large", alt);
  if (!regions.length) return shown;
  const [left, top, right, bottom] = regions[side];
  const holder = element("div", { className: state.closer ? "part" : "framed" }, shown);
  const changed = side === 0 && state.closer ? values.change : "";
  holder.classList.toggle("mirrored", changed.includes("mirrored"));
  holder.classList.toggle("inverted", changed.includes("inverted"));
  if (!state.closer) holder.append(Object.assign(element("i"), { ariaHidden: "true" }));
  const place = () => {
    const frame = holder.parentElement;
    if (!frame) return;
    const width = shown.naturalWidth, height = shown.naturalHeight;
    const [w, h] = state.closer ? [width * (right - left), height * (bottom - top)] : [width, height];
    const scale = Math.min(frame.clientWidth / w, frame.clientHeight / h);
    Object.assign(holder.style, { width: `${w * scale}px`, height: `${h * scale}px` });
    Object.assign(shown.style, { width: `${width * scale}px`, height: `${height * scale}px` });
    if (state.closer) Object.assign(shown.style, { left: `${-left * width * scale}px`, top: `${-top * height * scale}px` });
    else Object.assign(holder.lastChild.style, { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` });
  };
  shown.onload = place;
  return holder;
}

function facts([left, right]) {
  const pixels = ({ width, height }) => (width ? `${width} × ${height}` : "cannot be read");
  const rows = [
    ["Folder", left.folder, right.folder, 0],
    ["Resolution", pixels(left), pixels(right), left.width * left.height - right.width * right.height],
    ["Bytes", bytes(left.bytes), bytes(right.bytes), left.bytes - right.bytes],
    ["Format", left.format, right.format, 0],
    ["Taken", left.taken || "not known", right.taken || "not known", 0],
    ["File date", left.modified, right.modified, 0],
    ["Sharpness", left.sharpness.toFixed(0), right.sharpness.toFixed(0), Math.round(left.sharpness) - Math.round(right.sharpness)],
  ];
  const cell = (text, more) => element("td", {}, more ? element("b", { textContent: text, title: "more than the other" }) : text);
  return rows.map(([name, one, other, more]) => element("tr", {}, element("th", { scope: "row", textContent: name }), cell(one, more > 0), cell(other, more < 0)));
}

const decidePair = (word) =>
  attempt(async () => {
    const { pair } = state;
    if (!pair || pair.same_bytes) return;
    await decide(pair, word);
    pair.decision = word;
    if (state.view === "pairs") await advance();
  });

async function decide({ first, second, sha256 }, word, undoing = false) {
  const { before } = await request("/api/decisions", { token: state.all.token, first, second, sha256, decision: word });
  if (!undoing) state.done.push({ kind: "decision", first, second, sha256, before });
  remember(first, second, word);
  at("undo").disabled = !state.done.length;
  const left = state.all.pairs.filter(([, , said]) => said === null).length;
  say(`${undoing ? "Undone" : "Noted"}: ${SAID[word]}. ${left.toLocaleString("en")} pairs are undecided.`);
}

async function advance() {
  const filter = at("filter").value;
  for (let place = state.place + 1; place < state.list.length; place += 1) {
    if (filter !== "undecided" || state.list[place][2] === null) {
      state.place = place;
      return showPlace();
    }
  }
  if (filter === "undecided") {
    fillList();
    state.place = 0;
    return showPlace();
  }
  drawPair();
}

const undo = () =>
  attempt(async () => {
    const last = state.done.pop();
    at("undo").disabled = !state.done.length;
    if (!last) return say("There is nothing to undo.");
    if (last.kind === "keep") {
      await request("/api/kept", { token: state.all.token, group: last.group, file: last.file });
      say("Undone: the file that was kept before is kept again.");
      return open(`#group/${last.group}`);
    }
    await decide(last, last.before, true);
    if (state.view === "groups") {
      await refreshPlan();
      return showGroup();
    }
    const place = state.list.findIndex(([first, second]) => key(first, second) === key(last.first, last.second));
    if (place >= 0) state.place = place;
    await showPair(last.first, last.second);
    await showPosition();
  });

async function showPosition() {
  at("place").textContent = state.list.length ? `${state.place + 1} of ${state.list.length}` : "none";
  at("previous").disabled = state.place <= 0;
  at("next").disabled = state.place >= state.list.length - 1;
}

const step = (by) =>
  attempt(async () => {
    const place = state.place + by;
    if (place < 0 || place >= state.list.length) return;
    state.place = place;
    await showPlace();
  });

function toggleFigures() {
  at("figures").setAttribute("aria-pressed", String(document.body.classList.toggle("figured")));
}

function toggleCloser() {
  if (!state.pair?.regions.length) return;
  state.closer = !state.closer;
  drawPair();
}

// Groups

const KINDS = { all: () => true, certain: ([, , rank]) => rank === 0, look: ([, , rank]) => rank === 1, doubtful: ([, , rank]) => rank === 2 };

function fillGroups() {
  state.groups = state.all.groups.filter(KINDS[at("group-filter").value]);
  state.group = Math.min(state.group, Math.max(0, state.groups.length - 1));
}

async function showGroup() {
  drawActs();
  const group = state.groups[state.group];
  at("no-group").hidden = Boolean(group);
  at("plan").hidden = at("group").hidden = !group;
  at("previous-group").disabled = state.group <= 0;
  at("next-group").disabled = state.group >= state.groups.length - 1;
  at("group-place").textContent = group ? `group ${state.group + 1} of ${state.groups.length}` : "none";
  if (!group) {
    at("no-group").textContent = state.all.groups.length ? "There is no such group." : "There are no groups. A search makes them where it knows a threshold.";
    return;
  }
  const chosen = document.activeElement?.dataset?.file;
  drawGroup(await request(`/api/groups/${state.all.token}/${group[0]}`));
  history.replaceState(null, "", `#group/${group[0]}`);
  at("group").querySelector(`[data-file="${chosen}"]`)?.focus();
}

function drawGroup(group) {
  state.members = group;
  const folders = foldersApart(group.files);
  const planned = Object.entries({ keep: "kept", remove: "to go", review: "to look at", leave: "left alone", gone: "removed" }).flatMap(([action, said]) => {
    const count = group.files.filter((file) => (state.gone.has(file.number) ? "gone" : file.action) === action).length;
    return count ? `${count} ${said}` : [];
  });
  at("group").replaceChildren(
    element("p", { textContent: `${group.files.length} files: ${planned.join(", ")}. The first one is kept instead of the others.` }),
    element("div", { className: "files" }, ...group.files.map((file, place) => card(group, file, folders[place]))),
  );
  at("plan").replaceChildren("plan.csv holds these choices. On the command line it is carried out with ", element("code", { textContent: state.all.apply }));
}

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function drawActs() {
  const { remove, review, removed, groups } = state.all;
  const count = (key) => groups.filter(KINDS[key]).length.toLocaleString("en");
  const certainly = groups.filter(([, , , freed]) => freed).length;
  const labels = { all: plural(groups.length, "group"), certain: `${count("certain")} certain`, look: `${count("look")} to look at`, doubtful: `${count("doubtful")} doubtful` };
  for (const option of at("group-filter").options) option.textContent = labels[option.value];
  const sum = remove.files ? `${plural(certainly, "group")}, ${bytes(remove.bytes)} can go` : "Nothing can go for sure";
  const others = [remove.files ? `${plural(remove.files, "file")}, certainly copies` : "", review ? `${plural(review, "file")} to look at` : "", removed ? `${plural(removed, "file")} removed` : ""];
  at("going").replaceChildren(element("b", { textContent: sum }), `: ${others.filter(Boolean).join("; ") || "there is no copy"}.`);
  at("apply").hidden = !remove.files;
  at("apply").textContent = `Remove ${plural(remove.files, "file")} …`;
  at("put-back").hidden = !removed;
  at("put-back").textContent = `Put back ${plural(removed, "file")} …`;
}

// Asks before something is done; resolves to whether it is to be done.
function ask(title, text, yes, where = false) {
  at("question-title").textContent = title;
  at("question-text").textContent = text;
  at("question-yes").textContent = yes;
  at("question-way").hidden = !where;
  at("way").options[0].textContent = state.all.moved_to;
  at("question").returnValue = "no";
  at("question").showModal();
  at("question-no").focus();
  return new Promise((resolve) => at("question").addEventListener("close", () => resolve(at("question").returnValue === "yes"), { once: true }));
}

async function apply() {
  const { files, bytes: size, plan } = state.all.remove;
  const text = `Each is the same file as one that stays, or a copy of it. What belongs to them goes along. "Put back" takes everything back.`;
  if (!(await ask(`Remove ${plural(files, "file")} (${bytes(size)})?`, text, `Remove ${plural(files, "file")}`, true))) return;
  await attempt(async () => {
    const outcome = await request("/api/apply", { token: state.all.token, way: at("way").value, plan });
    await reload();
    report("Removed", outcome);
  });
}

async function putBack() {
  const { removed } = state.all;
  if (!(await ask(`Put back ${plural(removed, "file")}?`, "Each goes to where it was, unless another file has taken its place.", `Put back ${plural(removed, "file")}`))) return;
  await attempt(async () => {
    const outcome = await request("/api/apply/undo", { token: state.all.token });
    await reload();
    report("Put back", outcome);
  });
}

function report(what, { done, left, left_files: count }) {
  say(`${what}: ${plural(done, "file")}.`);
  if (count) tell(`Left alone: ${left.map(([file, reason]) => `${file} (${reason})`).join("; ")}${count > left.length ? ` and ${count - left.length} more` : ""}.`);
}

// Which of two files the other was made of, where that is known; what says so is in a tooltip.
const original = (said) => (said && said !== "not known" ? `. Original: ${said.split(":")[0]}` : "");

function card(group, file, folder) {
  const kept = file.number === group.kept;
  const button = (text, pressed, work, name) => {
    const made = element("button", { type: "button", textContent: text, onclick: work });
    if (pressed !== null) made.setAttribute("aria-pressed", String(pressed));
    made.setAttribute("aria-label", `${text}: ${name}`);
    return made;
  };
  const decided = !kept && !file.same_bytes;
  const gone = state.gone.has(file.number);
  const answers = gone ? null : element(
    "div",
    { className: "answer" },
    decided ? button("A copy", file.decision === "copy", () => decideMember(file, "copy"), file.name) : null,
    decided ? button("Not a copy", file.decision === "not-a-copy", () => decideMember(file, "not-a-copy"), file.name) : null,
    kept ? null : button("Compare", null, () => compare(file), file.name),
    kept || file.protected ? null : button("Keep this one", null, () => keep(file), file.name),
  );
  const details = [file.width ? `${file.width} × ${file.height}` : "cannot be read", bytes(file.bytes), file.format, file.taken ? `taken ${file.taken}` : ""];
  const made = element(
    "article",
    { className: `file${kept ? " kept" : ""}${gone ? " gone" : ""}`, tabIndex: gone ? -1 : 0 },
    element("div", { className: "frame" }, gone ? element("div", { className: "missing", textContent: "no picture" }) : image(file, "small", file.name)),
    element("p", {}, element("span", { className: `badge ${file.action}`, textContent: gone ? "removed" : file.action }), " ", role(file), " ", element("b", { textContent: file.name })),
    folderLine(folder),
    element("p", { textContent: details.filter(Boolean).join(", "), title: file.folder }),
    element("p", { title: file.original }, ...wording(file.reason + (file.certainty === null ? "" : ` (${file.certainty} of 100)`) + original(file.original))),
    answers,
  );
  if (!gone) made.dataset.file = file.number; // by which keys find it
  made.setAttribute("aria-label", `${file.name}${folder && ` in ${folder}`}, ${file.action}`);
  return made;
}

const decideMember = (file, word) =>
  attempt(async () => {
    if (file.number === state.members.kept || file.same_bytes) return;
    const kept = state.members.files.find((each) => each.number === state.members.kept);
    const said = file.decision === word ? "undecided" : word;
    await decide({ first: kept.number, second: file.number, sha256: [kept.sha256, file.sha256] }, said);
    focusOn(file.number);
    await refreshPlan();
    await showGroup();
    if (said !== "undecided") stepMember(1);
  });

const keep = (file) =>
  attempt(async () => {
    const before = state.members.kept;
    if (file.number === before) return;
    await request("/api/kept", { token: state.all.token, group: state.members.group, file: file.number });
    await refreshPlan();
    await showGroup();
    state.done.push({ kind: "keep", group: state.members.group, file: before });
    at("undo").disabled = false;
    focusOn(file.number);
    say(`${file.name} is kept; plan.csv says so.`);
  });

const focusOn = (file) => at("group").querySelector(`[data-file="${file}"]`)?.focus();

function compare(file) {
  if (file.number !== state.members.kept) open(`#pair/${state.members.kept}/${file.number}`, true);
}

const stepGroup = (by) =>
  attempt(async () => {
    const place = state.group + by;
    if (place < 0 || place >= state.groups.length) return;
    state.group = place;
    await showGroup();
  });

function chosenMember() {
  const chosen = document.activeElement?.closest?.("[data-file]");
  return chosen ? state.members?.files.find((file) => file.number === Number(chosen.dataset.file)) : undefined;
}

function stepMember(by) {
  const cards = [...at("group").querySelectorAll("[data-file]")];
  const now = cards.indexOf(document.activeElement?.closest?.("[data-file]"));
  cards[now < 0 ? (by > 0 ? Math.min(1, cards.length - 1) : 0) : Math.max(0, Math.min(cards.length - 1, now + by))]?.focus();
}

// Series

function showSeries() {
  at("shots").replaceChildren(...state.all.series.slice(0, MOST_SERIES).map((shots, place) => {
    const folders = foldersApart(shots);
    return element(
      "section",
      {},
      element("h2", { textContent: `Series ${place + 1}: ${plural(shots.length, "picture")}` }),
      element("div", { className: "files" }, ...shots.map((shot, shown) => shotCard(shot, shots[0].number, folders[shown]))),
    );
  }));
}

function shotCard({ number, name, folder }, sharpest, apart) {
  const label = number === sharpest ? element("span", { className: "badge keep", textContent: "sharpest" }) : element("a", { href: `#pair/${sharpest}/${number}`, textContent: "Compare" });
  return element("article", { className: `file${number === sharpest ? " kept" : ""}` }, element("div", { className: "frame" }, image({ number }, "small", name)), element("p", { title: folder }, label, " ", element("b", { textContent: name })), folderLine(apart));
}

// Decisions

async function showDecisions() {
  const { decisions } = await request("/api/decisions");
  at("no-decision").hidden = decisions.length > 0;
  at("decided").replaceChildren(...decisions.map(decisionLine));
}

function decisionLine({ sha256, names, files, copy, decided }) {
  const word = copy ? "copy" : "not-a-copy";
  const [first, second] = files;
  const known = files.every((file) => file !== null && !state.gone.has(file));
  return element(
    "li",
    {},
    element("span", { className: `badge ${word}`, textContent: SAID[word] }),
    element("span", { className: "names" }, names[0], element("br"), names[1]),
    element("time", { textContent: decided }),
    known ? element("a", { href: `#pair/${first}/${second}`, textContent: "Compare" }) : null,
    element("button", { type: "button", textContent: "Take back", onclick: () => forget(sha256, files) }),
  );
}

const forget = (sha256, [first, second]) =>
  attempt(async () => {
    await request("/api/decisions", { token: state.all.token, sha256, decision: "undecided" });
    remember(first, second, "undecided");
    say("The decision is taken back.");
    await showDecisions();
  });

// Views

function open(hash, kept = false) {
  if (kept) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
  return show();
}

const show = () =>
  attempt(async () => {
    const [, view, first, second] = location.hash.match(/^#(pair|group|pairs|groups|series|decisions)(?:\/(\d+))?(?:\/(\d+))?$/) ?? [null, state.all.groups.length ? "groups" : "pairs"];
    state.view = view.endsWith("s") ? view : `${view}s`;
    for (const each of VIEWS) {
      at(each).hidden = each !== state.view;
      if (each === state.view) at(`to-${each}`).setAttribute("aria-current", "page");
      else at(`to-${each}`).removeAttribute("aria-current");
    }
    if (view === "series") return showSeries();
    if (view === "decisions") return showDecisions();
    if (state.view === "groups") {
      await refreshPlan();
      if (first !== undefined && !state.groups.some(([group]) => group === Number(first))) {
        at("group-filter").value = "all";
        fillGroups();
      }
      const place = state.groups.findIndex(([group]) => group === Number(first));
      if (place >= 0) state.group = place;
      return showGroup();
    }
    if (view === "pair" && second !== undefined) {
      const place = state.list.findIndex((pair) => key(pair[0], pair[1]) === key(Number(first), Number(second)));
      if (place >= 0) state.place = place;
      await showPair(Number(first), Number(second));
      return showPosition();
    }
    await showPlace();
  });

// What the server knows now, after the plan was carried out.
async function reload() {
  await load();
  fillList();
  state.place = Math.min(state.place, Math.max(0, state.list.length - 1));
  if (state.view === "groups") await showGroup();
  if (state.view === "pairs") await showPlace();
}

async function load() {
  state.all = await request("/api/review");
  state.words = new Map(state.all.pairs.map((pair) => [key(pair[0], pair[1]), pair]));
  takePlan(state.all);
}

const refreshPlan = async () => takePlan(await request("/api/plan"));

function takePlan(plan) {
  Object.assign(state.all, plan);
  state.gone = new Set(plan.gone);
  fillGroups();
}

function refill() {
  fillList();
  state.place = 0;
  attempt(showPlace);
}

const EVERYWHERE = { u: undo, x: toggleFigures, "?": () => at("help").showModal(), 1: () => open("#groups", true), 2: () => open("#pairs", true), 3: () => open("#series", true), 4: () => open("#decisions", true) };
const ON_PAIRS = { j: () => step(1), ArrowRight: () => step(1), k: () => step(-1), ArrowLeft: () => step(-1), y: () => decidePair("copy"), n: () => decidePair("not-a-copy"), z: toggleCloser, l: () => lay("laid"), f: () => lay("flicker"), d: () => lay("differences") };
const onMember = (work) => () => {
  const file = chosenMember();
  if (file) work(file);
  else say("Choose a file first: with the arrow keys, or by clicking on it.");
};
const ON_GROUPS = {
  j: () => stepGroup(1), k: () => stepGroup(-1), ArrowRight: () => stepMember(1), ArrowLeft: () => stepMember(-1), s: onMember(keep),
  y: onMember((file) => decideMember(file, "copy")), n: onMember((file) => decideMember(file, "not-a-copy")),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || at("help").open || at("question").open || event.target.closest("select")) return;
  if (event.target === at("slider") && event.key.startsWith("Arrow")) return;
  const keys = { ...EVERYWHERE, ...(state.view === "pairs" ? ON_PAIRS : state.view === "groups" ? ON_GROUPS : {}) };
  const work = event.key === "Enter" && event.target.matches(".file") ? onMember(compare) : keys[event.key];
  if (!work) return;
  event.preventDefault();
  work();
}

function listen() {
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", show);
  addEventListener("resize", () => state.view === "pairs" && (state.way || state.pair?.regions.length) && drawPair());
  at("figures").onclick = toggleFigures;
  at("keys").onclick = () => at("help").showModal();
  at("filter").onchange = at("order").onchange = refill;
  at("previous").onclick = () => step(-1);
  at("next").onclick = () => step(1);
  at("previous-group").onclick = () => stepGroup(-1);
  at("next-group").onclick = () => stepGroup(1);
  at("group-filter").onchange = () => {
    state.group = 0;
    fillGroups();
    attempt(showGroup);
  };
  at("apply").onclick = apply;
  at("put-back").onclick = putBack;
  at("copy").onclick = () => decidePair("copy");
  at("no-copy").onclick = () => decidePair("not-a-copy");
  at("undo").onclick = undo;
  at("closer").onclick = toggleCloser;
  at("to-laid").onclick = () => lay("laid");
  at("flicker").onclick = () => lay("flicker");
  at("to-differences").onclick = () => lay("differences");
  at("slider").oninput = () => drawLaid(nameApart(state.pair.files));
}

await attempt(async () => {
  await load();
  const { pairs, groups, same_bytes, bounded, folder } = state.all;
  document.title = `Copies to review: ${folder}`;
  const same = same_bytes ? `, ${same_bytes.toLocaleString("en")} more of the same bytes` : "";
  at("about").textContent = `${folder}: ${pairs.length.toLocaleString("en")} pairs${same}${bounded ? " (the best; matches.csv lists all)" : ""}, ${groups.length.toLocaleString("en")} groups`;
  fillList();
  listen();
});
if (state.all) await show();
