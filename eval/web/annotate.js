"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const state = document.getElementById("state");
  const main = document.getElementById("main");

  function make(tag, text, name) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function choice(label, name, values, chosen) {
    const box = make("label", label);
    const select = make("select");
    select.name = name;
    for (const [value, shown] of values) select.append(new Option(shown, value, false, value === chosen));
    box.append(select);
    return box;
  }

  async function save(change) {
    state.textContent = "saving";
    try {
      const answer = await fetch("save", { method: "POST", body: JSON.stringify(change) });
      state.textContent = answer.ok ? "saved" : `not saved: ${await answer.text()}`;
    } catch (error) {
      state.textContent = "not saved: the annotation program is not running";
    }
  }

  function form(sample, n, row, place) {
    const said = row.said || { verdict: "", target: "", strategy: "", comment: "" };
    const box = make("fieldset");
    box.append(make("legend", row.agent ? "The agent spoke" : "The agent was silent after this"));
    const verdicts = row.agent
      ? [["", "not judged"], ["right", "right to speak"], ["wrong", "better silent"]]
      : [["", "fine, or not judged"], ["missing", "support was missing"]];
    box.append(choice("verdict", "verdict", verdicts, said.verdict));
    const decided = row.decided;
    const none = row.agent && decided.target ? `as it was (${decided.target})` : "not said";
    box.append(choice("to whom", "target", [["", none], ...sample.targets.map((t) => [t, t])], said.target));
    const kept = row.agent && decided.strategy ? `as it was (${decided.strategy})` : "not said";
    box.append(choice("strategy", "strategy", [["", kept], ...sample.strategies], said.strategy));
    const comment = make("label", "comment", "wide");
    const area = make("textarea");
    area.name = "comment";
    area.maxLength = 4000;
    area.value = said.comment;
    comment.append(area);
    box.append(comment);
    box.addEventListener("change", () => {
      const change = { sample: n, row: place };
      for (const field of box.querySelectorAll("select, textarea")) change[field.name] = field.value;
      save(change);
    });
    return box;
  }

  data.samples.forEach((sample, n) => {
    main.append(make("h2", sample.id));
    sample.rows.forEach((row, place) => {
      const turn = make("div", undefined, row.agent ? "turn agent" : "turn");
      turn.append(make("small", `${place + 1} `), make("b", row.speaker));
      if (row.to.length) turn.append(make("small", `to ${row.to.join(", ")}: `));
      turn.append(document.createTextNode(row.text));
      main.append(turn);
      const next = sample.rows[place + 1];
      if (row.agent) main.append(form(sample, n, row, place));
      else if (!next || !next.agent) {
        const more = make("details");
        more.open = Boolean(row.said && row.said.verdict);
        more.append(make("summary", "support was missing here?"), form(sample, n, row, place));
        main.append(more);
      }
    });
  });
})();
