// The relations panel. It shows what the room tells (window messages), never keeps more than
// the newest picture, and has the same content as sentences for screen readers.
import { useEffect, useState } from "react"

const kith = () => window.kith || { send() {}, show() {} }
const who = (p) => (p ? `var(--c${p.colour})` : "var(--k-soft)")
const pct = (x) => `${Math.round(100 * x)}%`
const KIND = {
  ally: { word: "is with", colour: "var(--c2)", dash: "" },
  conflict: { word: "is at odds with", colour: "var(--c1)", dash: "7 5" },
  mixed: { word: "is of two minds about", colour: "var(--c3)", dash: "2 4" },
  neutral: { word: "has no clear stance towards", colour: "var(--k-soft)", dash: "1 6" },
}

function Where({ keys, text = "Show where" }) {
  if (!keys || !keys.length) return null
  return (
    <button type="button" className="kr-where" onClick={() => kith().show(keys)}>
      {text}
    </button>
  )
}

function NotRight({ person, other }) {
  return (
    <button type="button" className="kr-wrong" onClick={() => kith().send("correct", { person, other: other || "" })}>
      That is not right
    </button>
  )
}

const mood = (p) => (p.emotion ? p.emotion : p.turns ? "hard to tell" : "not heard yet")

function positions(people, w, h) {
  const n = people.length, cx = w / 2, cy = h / 2
  if (n === 1) return [[cx, cy]]
  if (n === 2) return [[w * 0.22, cy], [w * 0.78, cy]]
  const rx = w * 0.36, ry = h * 0.33
  return people.map((_, i) => {
    const a = (2 * Math.PI * i) / n - Math.PI / 2
    return [cx + rx * Math.cos(a), cy + ry * Math.sin(a)]
  })
}

function Arrow({ from, to, stance, r, chosen, onChoose }) {
  const [x1, y1] = from, [x2, y2] = to
  const dx = x2 - x1, dy = y2 - y1, d = Math.hypot(dx, dy) || 1
  // both arrows of a pair bend away from the straight line, each to its own side
  const bend = Math.min(34, d * 0.2), kind = KIND[stance.kind], width = 2 + 4 * stance.strength
  const mx = (x1 + x2) / 2 - (dy / d) * bend, my = (y1 + y2) / 2 + (dx / d) * bend
  const tip = 8 + width, toward = (x, y, far) => {
    const l = Math.hypot(mx - x, my - y) || 1
    return [x + ((mx - x) / l) * far, y + ((my - y) / l) * far]
  }
  const start = toward(x1, y1, r + 2), end = toward(x2, y2, r + 3 + tip), point = toward(x2, y2, r + 3)
  const bx = (point[0] - end[0]) / tip, by = (point[1] - end[1]) / tip
  const head = [point, [end[0] - by * tip * 0.55, end[1] + bx * tip * 0.55], [end[0] + by * tip * 0.55, end[1] - bx * tip * 0.55]]
  const line = `M${start} Q${mx},${my} ${end}`
  const name = `${stance.from} ${kind.word} ${stance.to}`
  return (
    <g role="button" tabIndex={0} aria-label={name} aria-pressed={chosen} className="kr-edge"
      onClick={onChoose} onKeyDown={(e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), onChoose())}>
      <title>{name}</title>
      <path d={line} stroke="transparent" strokeWidth={18} fill="none" />
      <path d={line} stroke={kind.colour} strokeWidth={width} strokeDasharray={kind.dash} strokeLinecap="round" fill="none" opacity={chosen ? 1 : 0.8} />
      <polygon points={head.map((p) => p.join(",")).join(" ")} fill={kind.colour} opacity={chosen ? 1 : 0.85} />
    </g>
  )
}

function Node({ person, at, r, chosen, onChoose, below }) {
  const ring = 2 * Math.PI * (r + 5), part = Math.min(1, person.intensity / 10)
  const name = `${person.name}: ${mood(person)}${person.emotion ? `, ${Math.round(person.intensity)} out of 10` : ""}`
  const y = below ? r + 24 : -r - 30
  return (
    <g transform={`translate(${at})`} role="button" tabIndex={0} aria-label={name} aria-pressed={chosen} className="kr-node"
      onClick={onChoose} onKeyDown={(e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), onChoose())}>
      <title>{name}</title>
      <circle r={r + 5} fill="none" stroke="var(--k-line)" strokeWidth="3.5" />
      {part > 0 ? <circle r={r + 5} fill="none" stroke={who(person)} strokeWidth="3.5" strokeDasharray={`${ring * part} ${ring}`} transform="rotate(-90)" strokeLinecap="round" /> : null}
      <circle r={r} fill={`color-mix(in srgb, ${who(person)} 18%, var(--k-paper))`} stroke={chosen ? who(person) : "none"} strokeWidth="2.5" opacity={person.here ? 1 : 0.55} />
      <text textAnchor="middle" dy=".36em" fontSize={r * 0.8} fontWeight="650" fill={who(person)}>{[...person.name][0].toUpperCase()}</text>
      <text textAnchor="middle" y={y} fontSize="14" fontWeight="650" fill="var(--k-ink)">{short(person.name, 14)}</text>
      <text textAnchor="middle" y={y + 16} fontSize="12.5" fill="var(--k-soft)">{short(mood(person), 22)}</text>
    </g>
  )
}

const short = (text, n) => ([...text].length > n ? [...text].slice(0, n - 1).join("") + "…" : text)

function Graph({ view, chosen, choose }) {
  const n = view.people.length, w = 340, h = n <= 2 ? 170 : n <= 4 ? 310 : 390
  const r = n <= 2 ? 30 : n <= 5 ? 25 : 20
  const at = positions(view.people, w, h), place = Object.fromEntries(view.people.map((p, i) => [p.name, at[i]]))
  return (
    <svg viewBox={`0 0 ${w} ${h}`} className="kr-graph" role="group" aria-label="How you stand to each other">
      {view.stances.map((s) => {
        const id = `${s.from}>${s.to}`
        return <Arrow key={id} stance={s} from={place[s.from]} to={place[s.to]} r={r + 6} chosen={chosen === id} onChoose={() => choose(chosen === id ? null : id)} />
      })}
      {view.people.map((p, i) => (
        <Node key={p.id} person={p} at={at[i]} r={r} below={n <= 2 || at[i][1] >= h / 2 - 1} chosen={chosen === p.name} onChoose={() => choose(chosen === p.name ? null : p.name)} />
      ))}
    </svg>
  )
}

function Detail({ view, chosen }) {
  const person = view.people.find((p) => p.name === chosen)
  const stance = view.stances.find((s) => `${s.from}>${s.to}` === chosen)
  if (person)
    return (
      <div className="kr-card" aria-live="polite">
        <b style={{ color: who(person) }} dir="auto">{person.name}</b>{" "}
        {person.emotion ? <>seems <b>{person.emotion}</b>, {Math.round(person.intensity)} out of 10.</> : <>: {mood(person)}.</>}
        {person.presses ? " Presses at the moment." : ""}{person.retreats ? " Draws back at the moment." : ""}
        <div className="kr-row"><Where keys={person.evidence} />{person.mine && person.emotion ? <NotRight person={person.name} /> : null}</div>
      </div>
    )
  if (stance)
    return (
      <div className="kr-card" aria-live="polite">
        <b dir="auto">{stance.from}</b> {KIND[stance.kind].word} <b dir="auto">{stance.to}</b>{stance.attitude ? `, ${stance.attitude}` : ""}.
        {stance.viewpoint ? <blockquote dir="auto">“{stance.viewpoint}”</blockquote> : null}
        <div className="kr-row"><Where keys={stance.evidence} />{stance.mine ? <NotRight person={stance.from} other={stance.to} /> : null}</div>
      </div>
    )
  return <p className="kr-hint">Choose a person or an arrow to see what it rests on. These are guesses.</p>
}

function Pattern({ pattern }) {
  if (!pattern) return null
  return (
    <section className="kr-card" aria-label="The pattern between you">
      <details><summary><h3>{pattern.title}</h3></summary><p className="kr-soft">{pattern.about}</p></details>
      <ol className="kr-course" aria-label="How it went, oldest first">
        {pattern.course.map((p, i) => (
          <li key={i}>
            <button type="button" title={`${p.title} (${pct(p.probability)})`} aria-label={`${p.title}, ${pct(p.probability)}: show where`}
              className={p.title === pattern.title ? "same" : ""} style={{ height: `${10 + 26 * p.probability}px` }} onClick={() => kith().show(p.keys)} />
          </li>
        ))}
      </ol>
      <p className="kr-hint">The last turns: higher is surer, filled is the pattern named above.</p>
    </section>
  )
}

function Meter({ title, people, value }) {
  const known = people.filter((p) => value(p) != null)
  const total = known.reduce((sum, p) => sum + value(p), 0)
  if (!total) return null
  return (
    <div className="kr-meter">
      <span className="kr-soft">{title}</span>
      <div className="kr-bar" aria-hidden="true">
        {known.map((p) => <i key={p.id} style={{ width: pct(value(p) / total), background: who(p) }} />)}
      </div>
      <span className="kr-legend">{known.map((p) => <span key={p.id} dir="auto"><i style={{ background: who(p) }} />{short(p.name, 14)} {pct(value(p) / total)}</span>)}</span>
    </div>
  )
}

function LastDecision({ decision }) {
  if (!decision) return null
  return (
    <section className="kr-card" aria-label="What Kith decided last">
      <h3>{decision.headline}</h3>
      <ul>{decision.why.map((w, i) => <li key={i}>{w.text} <Where keys={w.evidence} /></li>)}</ul>
      <p className="kr-hint">
        {decision.asked ? "Somebody asked it to speak." : `It speaks from ${pct(decision.threshold)} on; it was at ${pct(decision.probability)}.`} {decision.spoke ? <Where keys={decision.reply} text="Show the reply" /> : null}
      </p>
    </section>
  )
}

function Picture({ view }) {
  const [chosen, choose] = useState(null)
  const heard = view.people.some((p) => p.turns)
  return (
    <div>
      <Graph view={view} chosen={chosen} choose={choose} />
      <Detail view={view} chosen={chosen} />
      <LastDecision decision={view.decision} />
      <Pattern pattern={view.pattern} />
      {view.bids.map((b, i) => <p key={i} className="kr-bid">{b.text} <Where keys={b.evidence} /></p>)}
      {heard ? (
        <section className="kr-card" aria-label="Balance">
          <h3>Room for everyone</h3>
          <Meter title="Words spoken" people={view.people} value={(p) => p.floor} />
          <Meter title="Kith’s attention" people={view.people} value={(p) => p.support} />
        </section>
      ) : null}
    </div>
  )
}

function Words({ view }) {
  if (!view.sentences.length) return <p className="kr-hint">Nothing was said yet.</p>
  return <ol className="kr-words">{view.sentences.map((s, i) => <li key={i} dir="auto">{s.text} <Where keys={s.evidence} /></li>)}</ol>
}

function Settings({ view }) {
  const s = view.settings
  const [talk, setTalk] = useState(s.talk)
  useEffect(() => setTalk(s.talk), [s.talk])
  const off = s.strategies.filter((x) => !x.on).map((x) => x.name)
  const toggle = (name, on) => kith().send("strategies", { off: on ? off.filter((n) => n !== name) : [...off, name] })
  return (
    <div>
      <p className="kr-hint">These hold for everybody in the room.</p>
      <label className="kr-field">How much Kith talks
        <input type="range" min="0" max="1" step="0.05" value={talk} aria-valuetext={talk < 0.35 ? "little" : talk > 0.65 ? "much" : "its own measure"}
          onChange={(e) => setTalk(Number(e.target.value))} onPointerUp={() => kith().send("talk", { value: talk })} onKeyUp={() => kith().send("talk", { value: talk })} />
        <span className="kr-ends"><span>hardly ever</span><span>often</span></span>
      </label>
      <div className="kr-row">
        <button type="button" className="kr-button" onClick={() => kith().send("pause", { on: !s.paused })}>{s.paused ? "Let Kith listen again" : "Pause Kith"}</button>
        <button type="button" className="kr-button" onClick={() => kith().send("speak_now")}>Ask Kith to speak</button>
      </div>
      {s.paused ? <p className="kr-hint">While paused, Kith neither speaks nor updates the picture. Afterwards it reads what was said meanwhile.</p> : null}
      <fieldset className="kr-field"><legend>What Kith may do</legend>
        {s.strategies.map((x) => (
          <label key={x.name} className="kr-check" title={x.about}>
            <input type="checkbox" checked={x.on} onChange={(e) => toggle(x.name, e.target.checked)} />
            <span><b>{x.title}</b><small>{x.about}</small></span>
          </label>
        ))}
      </fieldset>
    </div>
  )
}

const TABS = [["picture", "Picture", Picture], ["words", "In words", Words], ["settings", "Settings", Settings]]

export default function KithRelations() {
  const [view, setView] = useState(window.kith && window.kith.panel)
  const [tab, setTab] = useState("picture")
  useEffect(() => {
    const hear = (e) => e.source === window && e.data && e.data.from === "room" && e.data.kith === "panel" && setView(e.data.view)
    window.addEventListener("message", hear)
    kith().send("panel")
    return () => window.removeEventListener("message", hear)
  }, [])
  if (!view) return <p className="kr-hint">One moment…</p>
  const Current = TABS.find(([id]) => id === tab)[2]
  const move = (e) => {
    const i = TABS.findIndex(([id]) => id === tab), step = { ArrowRight: 1, ArrowLeft: -1 }[e.key]
    if (!step) return
    const next = TABS[(i + step + TABS.length) % TABS.length][0]
    setTab(next)
    document.getElementById(`kr-tab-${next}`).focus()
  }
  return (
    <div className="kr" data-testid="relations">
      <div role="tablist" aria-label="Between you" className="kr-tabs" onKeyDown={move}>
        {TABS.map(([id, name]) => (
          <button key={id} id={`kr-tab-${id}`} role="tab" type="button" aria-selected={tab === id} aria-controls="kr-body" tabIndex={tab === id ? 0 : -1} onClick={() => setTab(id)}>{name}</button>
        ))}
      </div>
      <div id="kr-body" role="tabpanel" aria-labelledby={`kr-tab-${tab}`}><Current view={view} /></div>
    </div>
  )
}
