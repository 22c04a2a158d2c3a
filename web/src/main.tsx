import "./style/tokens.css";
import "./style/base.css";
import "./style/layout.css";
import "./style/controls.css";
import "./style/table.css";
import "./style/chart.css";
import "./style/queue.css";
import "./style/pages.css";
import "./style/run.css";
import { render } from "preact";
import { startLive } from "./api/live.ts";
import { App } from "./app.tsx";
import { followLinks } from "./router/route.ts";
import { startFigures } from "./store/figures.ts";

followLinks();
startFigures();
startLive();
render(<App />, document.getElementById("app")!);
