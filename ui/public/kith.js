// The room's own script around Chainlit's page. It relies on: #step-<id> and data-step-type of a
// message, #welcome-screen, #message-composer, and on the page passing window messages to the
// server (chainlit 2.12). People's text never enters the page as HTML from here.
(() => {
  // The page asks /user now and then and takes a server that is away for a logged-out person: it
  // would leave for a login page that cannot load. Waiting keeps the room on the screen.
  const fetched = window.fetch.bind(window)
  window.fetch = async (input, init) => {
    const url = new URL(typeof input === "string" ? input : input.url || input, window.location.href)
    if (url.pathname !== "/user") return fetched(input, init)
    for (let wait = 500; ; wait = Math.min(2 * wait, 5000)) {
      try {
        return await fetched(input, init)
      } catch {
        await new Promise((done) => setTimeout(done, wait))
      }
    }
  }

  const kith = (window.kith = { panel: null, lines: new Map(), votes: {}, shared: new Set(), mode: "", name: "" })
  const narrow = () => window.matchMedia("(max-width: 767px)").matches
  const send = (what, more = {}) =>
    window.postMessage({ kith: "do", what, ...more }, window.location.origin)
  kith.send = send

  function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag)
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "on") for (const [e, f] of Object.entries(value)) node.addEventListener(e, f)
      else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value)
    }
    node.append(...children.filter((c) => c != null))
    return node
  }

  // the bar at the top

  const button = (text, on, more = {}) => el("button", { type: "button", on: { click: on }, ...more }, text)
  const status = el("span", { id: "kith-status", role: "status" }, "listening")
  const panelButton = button("Between you", () => togglePanel(), { id: "kith-panel-button", "aria-pressed": "false" })
  const pauseButton = button("Pause Kith", () => send("pause", { on: !(kith.panel && kith.panel.settings.paused) }), { id: "kith-pause" })
  const menu = el("details", { id: "kith-menu" },
    el("summary", { "aria-label": "More" }, "More"),
    el("div", { class: "items" },
      button("Ask Kith to speak", () => { send("speak_now"); menu.open = false }, { id: "kith-speak" }),
      pauseButton,
      el("a", { href: "/people" }, "People and links"),
      button("Light or dark", () => theme()),
      el("a", { href: "/leave" }, "Take a copy, or leave")))
  const bar = el("header", { id: "kith-bar" },
    el("a", { class: "brand", href: "/", "aria-label": "Kith" }, el("img", { src: "/public/kith.svg", alt: "", width: 28, height: 28 }), el("b", {}, "Kith")),
    status,
    el("span", { class: "gap" }),
    panelButton,
    menu,
    el("a", { class: "help", href: "/help", target: "_blank" }, "Urgent help"),
    el("a", { class: "exit", "data-exit": true, href: "https://www.wikipedia.org/" }, "Leave quickly"))
  const statement = el("p", { id: "kith-statement" },
    "Kith is an AI, not a therapist, and can be wrong. What is written here is stored on the computer that runs this room. ",
    el("a", { class: "help", href: "/help", target: "_blank" }, "Urgent help"))
  const play = el("div", { id: "kith-play", role: "group", "aria-label": "Demo conversation", hidden: true })
  const notice = el("div", { id: "kith-notice", role: "alert", hidden: true })

  function theme() {
    const root = document.documentElement
    const next = root.classList.contains("dark") ? "light" : "dark"
    root.classList.remove("light", "dark")
    root.classList.add(next)
    localStorage.setItem("vite-ui-theme", next)
  }

  const panelOpen = () => !!document.getElementById("side-view-content")
  function togglePanel() {
    const open = panelOpen()
    sessionStorage.setItem("kith-panel", open ? "closed" : "open")
    send(open ? "close_panel" : "open_panel")
  }

  let noticeTimer = 0
  function say(text, sticky = false) {
    notice.replaceChildren(el("span", {}, text), button("Close", () => (notice.hidden = true), { class: "close" }))
    notice.hidden = false
    clearTimeout(noticeTimer)
    if (!sticky) noticeTimer = setTimeout(() => (notice.hidden = true), 9000)
  }

  function showStatus() {
    const paused = kith.panel && kith.panel.settings.paused
    status.textContent = kith.thinking ? "thinking…" : paused ? "paused" : "listening"
    status.dataset.state = kith.thinking ? "thinking" : paused ? "paused" : "listening"
    pauseButton.textContent = paused ? "Let Kith listen again" : "Pause Kith"
  }

  // the play bar of a demo conversation

  function showPlay(view) {
    play.hidden = !view
    if (!view) return
    const ended = view.position >= view.total
    const speed = el("select", { "aria-label": "Speed", on: { change: (e) => send("play", { how: "speed", speed: Number(e.target.value) }) } },
      ...view.speeds.map((s) => el("option", { value: s, selected: s === view.speed }, s + "×")))
    play.replaceChildren(
      el("strong", {}, view.title),
      el("progress", { max: view.total, value: view.position, "aria-label": "Lines played" }),
      el("span", { class: "count" }, `${view.position} of ${view.total}`),
      el("span", { class: "gap" }),
      button("Next line", () => send("play", { how: "step" }), { id: "kith-step", disabled: ended }),
      button(view.playing ? "Pause" : "Play", () => send("play", { how: view.playing ? "pause" : "play" }), { id: "kith-playing", class: "main", disabled: ended }),
      speed)
  }

  // labels and tools of lines

  function label(line) {
    const time = new Date(line.at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    const to = line.to.filter((n) => n !== "Kith" || !line.private)
    return el("div", { class: "kith-label" },
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("span", { class: "name", dir: "auto" }, line.name),
      to.length ? el("span", { class: "to", dir: "auto" }, "to " + to.join(", ")) : null,
      line.private ? el("span", { class: "lock" }, "only you and Kith see this") : null,
      el("time", {}, time),
      line.agent ? null : tools(line))
  }

  function tools(line) {
    const box = el("div", { class: "kith-tools" })
    if (line.agent) {
      const vote = (v) => (e) => {
        const on = e.currentTarget.getAttribute("aria-pressed") !== "true"
        send("vote", { key: line.key, vote: on ? v : 0 })
      }
      box.append(
        button("Why?", () => toggleMore(line.key, "why"), { class: "why", "aria-expanded": "false" }),
        button("What else?", () => toggleMore(line.key, "what_else"), { class: "what-else", "aria-expanded": "false" }),
        button("👍", vote(1), { class: "vote", "data-vote": "1", "aria-label": "This helped", "aria-pressed": String(kith.votes[line.key] === 1) }),
        button("👎", vote(-1), { class: "vote", "data-vote": "-1", "aria-label": "This did not help", "aria-pressed": String(kith.votes[line.key] === -1) }))
      // what Kith said to one person alone is theirs to erase
      if (line.private) eraser(line, box)
    } else if (line.mine) {
      eraser(line, box)
      if (line.private) share(line, box)
    }
    return box
  }

  function eraser(line, box) {
    box.append(button("Erase", () => box.classList.add("asking"), { class: "erase" }),
      el("span", { class: "sure" }, line.private ? "For good? " : "For good, for everyone? ",
        button("Erase", () => send("erase", { keys: [line.key] }), { class: "yes" }),
        button("Keep", () => box.classList.remove("asking"))))
  }

  // a whisper is shown to the others only when its writer says so, line by line
  function share(line, box) {
    const release = (on) => () => { box.classList.remove("sharing"); send("release", { key: line.key, on }) }
    if (kith.shared.has(line.key)) {
      box.append(button("Take back what I shared", release(false), { class: "unshare" }))
      return
    }
    box.append(button("Share with everyone", () => box.classList.add("sharing"), { class: "share" }),
      el("span", { class: "sure-share" }, "Everybody will read this line. ",
        button("Share it", release(true), { class: "yes-share" }),
        button("Keep it private", () => box.classList.remove("sharing"))))
  }

  const stepOf = (key) => document.getElementById("step-" + key)

  // labels make the chat longer after Chainlit scrolled: stay at the end when we were there
  function scroller() {
    let node = document.querySelector("[data-step-type]")
    while (node && !(node.scrollHeight > node.clientHeight + 1 && getComputedStyle(node).overflowY === "auto")) node = node.parentElement
    return node
  }

  function decorate(key) {
    const step = stepOf(key), line = kith.lines.get(key)
    if (!step || !line) return
    const outer = step.closest("[data-step-type]")
    if (!outer || outer.dataset.kith === key) return
    outer.querySelectorAll(".kith-label, .kith-tools, .kith-more").forEach((n) => n.remove())
    outer.dataset.kith = key
    outer.dataset.side = line.side
    outer.toggleAttribute("data-private", line.private)
    outer.style.setProperty("--who", line.colour == null ? "var(--k-teal)" : `var(--c${line.colour})`)
    step.parentElement.insertBefore(label(line), step)
    if (line.agent) step.parentElement.append(tools(line))
    const box = scroller()
    if (box && box.scrollHeight - box.clientHeight - box.scrollTop < 240) box.scrollTop = box.scrollHeight
  }
  const decorateAll = () => {
    document.querySelectorAll('[id^="step-"]').forEach((s) => decorate(s.id.slice(5)))
    panelButton.setAttribute("aria-pressed", String(panelOpen()))
    const box = document.querySelector("[data-step-type]")?.closest(".mx-auto")
    if (box && !box.hasAttribute("role")) {
      box.setAttribute("role", "log")
      box.setAttribute("aria-label", "Conversation")
    }
    welcome()
    names()
  }

  function toggleMore(key, what) {
    const outer = stepOf(key).closest("[data-step-type]")
    const open = outer.querySelector(".kith-more")
    outer.querySelectorAll("[aria-expanded]").forEach((b) => b.setAttribute("aria-expanded", "false"))
    if (open) {
      open.remove()
      if (open.dataset.what === what) return
    }
    outer.querySelector(what === "why" ? ".why" : ".what-else").setAttribute("aria-expanded", "true")
    outer.append(el("div", { class: "kith-more", "data-what": what, role: "region", "aria-label": what === "why" ? "Why Kith said this" : "What other variants would have done" }, el("p", { class: "wait" }, "One moment…")))
    send(what, { key })
  }

  function fillMore(key, what, ...children) {
    const step = stepOf(key)
    const box = step && step.closest("[data-step-type]").querySelector(`.kith-more[data-what="${what}"]`)
    if (!box) return
    box.replaceChildren(...children.filter(Boolean))
    box.scrollIntoView({ block: "nearest" })
  }

  function why(data) {
    const d = data.decision
    fillMore(data.key, "why",
      el("p", {}, el("b", {}, d.headline)),
      d.strategy ? el("p", { class: "soft" }, d.strategy.about) : null,
      el("ul", {}, ...d.why.map((w) => el("li", {}, w.text + " ", where(w.evidence)))))
  }
  function where(keys) {
    return keys.length ? button("Show where", () => kith.show(keys), { class: "where" }) : ""
  }
  function whatElse(data) {
    fillMore(data.key, "what_else",
      el("p", { class: "soft" }, "The same moment, decided by other variants. Nothing in the room changes."),
      ...data.variants.map((v) => el("div", { class: "variant" },
        el("b", {}, v.title), el("p", {}, v.headline), v.words ? el("blockquote", {}, v.words) : null)))
  }

  function voted(data) {
    kith.votes[data.key] = data.vote
    const step = stepOf(data.key)
    if (!step) return
    step.closest("[data-step-type]").querySelectorAll(".vote").forEach((b) =>
      b.setAttribute("aria-pressed", String(Number(b.dataset.vote) === data.vote)))
  }

  // lead to the lines a claim rests on
  kith.show = (keys) => {
    if (narrow() && panelOpen()) send("close_panel")
    setTimeout(() => {
      document.querySelectorAll(".kith-shown").forEach((n) => n.classList.remove("kith-shown"))
      const found = keys.map(stepOf).filter(Boolean).map((s) => s.closest("[data-step-type]"))
      if (!found.length) return say("Those lines are not here any more.")
      found.forEach((n) => n.classList.add("kith-shown"))
      const last = found[found.length - 1]
      last.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" })
      last.tabIndex = -1
      last.focus({ preventScroll: true })
      setTimeout(() => found.forEach((n) => n.classList.remove("kith-shown")), 6000)
    }, narrow() ? 350 : 0)
  }

  // an empty room, and names for what only has a picture

  function welcome() {
    const screen = document.getElementById("welcome-screen")
    if (!screen || screen.querySelector(".kith-welcome") || !kith.mode) return
    const text = kith.mode === "demo"
      ? "Press “Play” and watch. Kith listens live and takes the helper’s chair."
      : kith.mode === "hot_seat"
        ? "You share this screen. Choose who speaks below the text, and start anywhere."
        : `Welcome, ${kith.name}. Start anywhere. Kith listens, and speaks when it may help.`
    screen.insertBefore(el("div", { class: "kith-welcome" }, el("p", {}, text),
      kith.mode === "shared" ? el("a", { href: "/people" }, "Invite the others") : null), screen.querySelector("#message-composer"))
  }
  function names() {
    const speaker = document.getElementById("mode-picker-trigger-speaker")
    const to = document.getElementById("mode-picker-trigger-to")
    if (!to) return
    const picked = { speaker: speaker ? speaker.textContent : "", to: to.textContent }
    if (speaker) speaker.setAttribute("aria-label", "Speaking as: " + picked.speaker)
    to.setAttribute("aria-label", "Said to: " + picked.to)
    const composer = document.getElementById("message-composer")
    if (composer) composer.toggleAttribute("data-whisper", picked.to === "Only to Kith")
    // the server keeps the choice when people come and go
    const text = JSON.stringify(picked)
    if (text !== sessionStorage.getItem("kith-picked")) {
      sessionStorage.setItem("kith-picked", text)
      send("picked", picked)
    }
  }

  // what the room tells

  const heard = {
    welcome(data) {
      Object.assign(kith, { mode: data.mode, name: data.name })
      document.documentElement.dataset.kithMode = data.mode
      send("hello", JSON.parse(sessionStorage.getItem("kith-picked") || "{}"))
      if (!narrow() && sessionStorage.getItem("kith-panel") !== "closed") send("open_panel")
      decorateAll()
    },
    lines(data) {
      if (data.reset) kith.lines.clear()
      data.lines.forEach((line) => kith.lines.set(line.key, line))
      if (data.reset) document.querySelectorAll("[data-kith]").forEach((n) => delete n.dataset.kith)
      decorateAll()
    },
    erased(data) { data.keys.forEach((key) => kith.lines.delete(key)) },
    panel(data) { kith.panel = data.view; showStatus() },
    thinking(data) { kith.thinking = data.on; showStatus() },
    playback(data) { showPlay(data.view) },
    notice(data) { say(data.text, data.stays) },
    refused(data) {
      say(data.text, true)
      const step = data.key && stepOf(data.key)
      if (step) step.closest("[data-step-type]").dataset.side = "refused"
    },
    why, what_else: whatElse, voted,
    votes(data) { Object.entries(data.votes).forEach(([key, vote]) => voted({ key, vote })) },
    releases(data) {
      kith.shared = new Set(data.keys)
      document.querySelectorAll("[data-kith][data-private]").forEach((n) => delete n.dataset.kith)
      decorateAll()
    },
    go(data) { window.location.assign(data.to) },
  }
  window.addEventListener("message", (event) => {
    if (event.source !== window || !event.data || event.data.from !== "room") return
    const handle = heard[event.data.kith]
    if (handle) handle(event.data)
  })

  function begin() {
    document.body.prepend(bar, statement, play)
    document.body.append(notice)
    const quick = el("script", { src: "/public/exit.js" })
    document.head.append(quick)
    new MutationObserver(decorateAll).observe(document.getElementById("root"), { childList: true, subtree: true, characterData: true })
    document.addEventListener("click", (e) => { if (!menu.contains(e.target)) menu.open = false })
    const size = () => document.documentElement.style.setProperty("--kith-top", bar.offsetHeight + statement.offsetHeight + (play.hidden ? 0 : play.offsetHeight) + "px")
    new ResizeObserver(size).observe(document.body)
    for (const node of [bar, statement, play]) new ResizeObserver(size).observe(node)
    size()
  }
  begin()
})()
