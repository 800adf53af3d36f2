// Leave quickly: a click on [data-exit], or Escape three times within two seconds.
(() => {
  const NEUTRAL = "https://www.wikipedia.org/"
  function leave(to) {
    document.title = "New tab"
    document.body.replaceChildren()
    try {
      sessionStorage.clear()
      navigator.sendBeacon("/exit")
    } finally {
      window.location.replace(to)
    }
  }
  let presses = []
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("[data-exit]")
    if (!link) return
    event.preventDefault()
    leave(link.href || NEUTRAL)
  }, true)
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return
    const now = Date.now()
    presses = [...presses.filter((t) => now - t < 2000), now]
    if (presses.length >= 3) leave(NEUTRAL)
  }, true)
})()
