/** Whether the page is narrow: the same border as in the style. */

import { useEffect, useState } from "preact/hooks";

export function useNarrow(): boolean {
  const query = matchMedia("(max-width: 760px)");
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const tell = () => setNarrow(query.matches);
    query.addEventListener("change", tell);
    return () => query.removeEventListener("change", tell);
  }, []);
  return narrow;
}
