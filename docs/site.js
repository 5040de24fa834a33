// Stills of mechanisms (pictures/gallery/NAME.png) move while they are in view: the page motions/NAME.html is put in
// their place and taken out again, as a browser draws only some of them at a time. Without it the still stays.
document.addEventListener("DOMContentLoaded", () => {
  const watch = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) {
      target.querySelector("iframe")?.remove();
      if (!isIntersecting) continue;
      const frame = document.createElement("iframe");
      frame.src = target.dataset.motion;
      frame.title = target.querySelector("img").alt + " in motion";
      target.append(frame);
    }
  }, { rootMargin: "60px" });
  for (const img of document.querySelectorAll('img[src*="pictures/gallery/"]')) {
    const box = document.createElement("div");
    box.className = "motion";
    box.dataset.motion = img.src.replace(/pictures\/gallery\/([^/]+)\.png$/, "motions/$1.html#bare,play");
    img.replaceWith(box);
    box.append(img);
    watch.observe(box);
  }
});
