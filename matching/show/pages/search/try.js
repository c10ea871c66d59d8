// A picture is sent to /api/matches, and what it copies is listed.

const [file, message, list, about] = ["file", "message", "matches", "about"].map(name => document.getElementById(name));
let last = 0;

function say(text) {
  message.textContent = text;
  message.hidden = !text;
}

function describe(match) {
  const item = document.createElement("li");
  const name = document.createElement("b");
  name.textContent = match.reference;
  item.append(name, ` ${match.class} (${match.certainty} of 100): ${match.reason}`);
  return item;
}

async function ask() {
  const picture = file.files[0];
  const own = last += 1;
  list.replaceChildren();
  say("Searching …");
  try {
    const headers = { "Content-Type": "application/octet-stream" };
    const response = await fetch("/api/matches", { method: "POST", headers, body: picture });
    const answer = await response.json();
    if (own !== last) return; // another picture was chosen meanwhile
    const matches = answer.matches ?? [];
    list.replaceChildren(...matches.map(describe));
    say(answer.detail ?? (matches.length ? "" : "It copies none of the references."));
  } catch (error) {
    if (own === last) say(`The service does not answer (${error.message}).`);
  }
}

file.addEventListener("change", ask);
const known = await (await fetch("/api/about")).json();
about.textContent = known.detail ?? `${known.references} references are searched.`;
