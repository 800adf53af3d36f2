"use strict";
(() => {
  const node = document.getElementById("units");
  if (!node) return;
  const data = JSON.parse(node.textContent);
  const by = (id) => document.getElementById(id);
  const PAGE = 200;
  let shown = [];
  let page = 0;

  function make(tag, text, name) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function options(select, values, first) {
    select.replaceChildren();
    if (first) select.append(new Option(first, ""));
    for (const value of values) select.append(new Option(value, value));
  }

  function filtered() {
    const variant = by("variant").value;
    const task = by("task").value;
    const kind = by("kind").value;
    return data.units.filter((u) =>
      u.variant === variant && (!task || u.task === task) &&
      (!kind || (kind === "failed" ? u.status !== "ok" : kind === "right" ? u.right === true : u.right === false)));
  }

  function line(u) {
    return `${u.task.toUpperCase()} · ${u.sample_id} · row ${u.row}`;
  }

  function list() {
    const holder = by("list");
    holder.replaceChildren();
    const start = page * PAGE;
    for (const u of shown.slice(start, start + PAGE)) {
      const item = make("li");
      const mark = u.right === true ? "right" : u.right === false ? "wrong" : "";
      const button = make("button", line(u), mark);
      button.type = "button";
      button.addEventListener("click", () => {
        for (const other of holder.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
        button.setAttribute("aria-current", "true");
        unit(u);
      });
      item.append(button);
      holder.append(item);
    }
    const end = Math.min(shown.length, start + PAGE);
    by("count").textContent = shown.length ? `${start + 1} to ${end} of ${shown.length}` : "none";
    by("back").disabled = page === 0;
    by("more").disabled = end >= shown.length;
  }

  function pairs(entries) {
    const dl = make("dl");
    for (const [name, value] of entries) {
      if (value === undefined || value === null || value === "") continue;
      dl.append(make("dt", name), make("dd", value));
    }
    return dl;
  }

  function ranked(items) {
    return (items || []).map((i) => `${i[0]} ${i[1].toFixed(2)}`).join(", ");
  }

  function folded(title, content, open) {
    const box = make("details");
    box.open = Boolean(open);
    box.append(make("summary", title), content);
    return box;
  }

  function transcript(u) {
    const turns = data.transcripts[u.sample_id];
    const box = make("div");
    if (!turns) {
      box.append(make("p", data.no_text));
      return box;
    }
    for (const [place, turn] of turns.slice(0, u.visible).entries()) {
      const row = make("div", undefined, turn.agent ? "turn agent" : "turn");
      row.append(make("small", `${place + 1} `), make("b", turn.speaker));
      if (turn.to.length) row.append(make("small", `to ${turn.to.join(", ")}: `));
      row.append(document.createTextNode(turn.text));
      for (const said of turn.background) row.append(make("div", `(${said})`));
      box.append(row);
    }
    return box;
  }

  function unit(u) {
    const holder = by("unit");
    holder.replaceChildren();
    holder.append(make("h3", `${line(u)}, ${u.variant}`));
    holder.append(pairs([
      ["gold", typeof u.gold === "string" ? u.gold : JSON.stringify(u.gold)],
      ["answer", u.answer],
      ["status", u.status === "ok" ? "" : `${u.status}: ${u.error}`],
      ["given target", u.known_target],
    ]));
    const d = data.decisions[u.decision];
    if (d) {
      holder.append(folded("Decision", pairs([
        ["speak?", `${d.intervene ? "yes" : "no"} (probability ${d.probability.toFixed(3)}, threshold ${d.threshold})`],
        ["targets", ranked(d.targets)],
        ["strategies", ranked(d.strategies)],
        ["pattern", ranked(d.pattern)],
        ["why", d.reasons.join(" · ")],
        ["policy", d.policy],
      ]), true));
      holder.append(folded("State", pairs(d.state)));
    }
    holder.append(folded("Transcript up to the point", transcript(u), true));
    holder.append(folded("Raw record", make("pre", JSON.stringify(u.raw, null, 1))));
    if (window.matchMedia("(max-width: 700px)").matches) holder.scrollIntoView({ block: "start" });
  }

  function refresh() {
    shown = filtered();
    page = 0;
    list();
    by("unit").replaceChildren(make("p", shown.length ? "Choose a unit." : "No unit fits."));
  }

  options(by("variant"), data.variants);
  options(by("task"), data.tasks, "all tasks");
  for (const id of ["variant", "task", "kind"]) by(id).addEventListener("change", refresh);
  by("back").addEventListener("click", () => { page -= 1; list(); });
  by("more").addEventListener("click", () => { page += 1; list(); });
  refresh();
})();
