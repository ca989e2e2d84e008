/** The page of a server: it starts here. */

import { render } from "preact";
import { App } from "./app";
import { keepUp } from "./state/live";
import { followAddress } from "./state/route";
import { applyTheme } from "./state/theme";
import "./style/page.css";

applyTheme();
followAddress();
keepUp();
render(<App />, document.getElementById("page") as HTMLElement);
