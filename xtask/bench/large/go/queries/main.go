// Stores metrics and evaluates queries over them, as a monitoring server does all the time.
//
// Arguments: SECONDS [PERCENT OF A PROCESSOR]
package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"agent.test/bench/pace"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

var queries = []string{
	`sum by (job) (rate(requests_total[2m]))`,
	`histogram_quantile(0.9, sum by (le) (rate(latency_bucket[2m])))`,
	`topk(3, avg_over_time(requests_total[1m])) / on (job) group_left count by (job) (requests_total)`,
	`quantile_over_time(0.5, requests_total[90s]) > bool 3`,
	`label_replace(stddev by (job) (requests_total), "x", "$1-$1", "job", "(.*)")`,
	`predict_linear(requests_total[2m], 60) or deriv(requests_total[2m])`,
	`sort_desc(max_over_time(requests_total{instance=~"i[0-3]+"}[1m]) - min_over_time(requests_total[1m]))`,
	`absent(missing_total) or clamp(changes(requests_total[2m]), 1, 9) ^ 2`,
	`sum_over_time((sum(increase(requests_total[1m])))[3m:15s])`,
	`count_values("v", round(sqrt(requests_total) + ln(requests_total + 1)))`,
}

func main() {
	directory, err := os.MkdirTemp("", "queries")
	pace.Check(err)
	defer os.RemoveAll(directory)
	options := tsdb.DefaultOptions()
	options.MinBlockDuration, options.MaxBlockDuration = 120_000, 600_000
	options.RetentionDuration = 1_800_000
	db, err := tsdb.Open(directory, slog.New(slog.DiscardHandler), nil, options, nil)
	pace.Check(err)
	defer db.Close()
	parse := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, Parser: parse})
	ctx := context.Background()
	// Data arrives faster than time passes, so that blocks are cut and compacted.
	at := time.Now().Add(-time.Hour).UnixMilli()
	symbols := labels.NewSymbolTable()
	pace.Run(func(turn int) {
		at += 5000
		appender := db.Appender(ctx)
		for series := range 40 {
			value := float64(turn*(series%7+1)) + math.Sin(float64(turn)/9)
			_, err := appender.Append(0, labels.FromStrings("__name__", "requests_total",
				"job", fmt.Sprint("j", series%5), "instance", fmt.Sprint("i", series)), at, math.Abs(value))
			pace.Check(err)
			_, err = appender.Append(0, labels.FromStrings("__name__", "latency_bucket",
				"le", fmt.Sprint(series/4), "job", fmt.Sprint("j", series%5)), at, float64(turn*(series/4)))
			pace.Check(err)
		}
		pace.Check(appender.Commit())
		query := queries[turn%len(queries)]
		_, err := parse.ParseExpr(query)
		pace.Check(err)
		evaluation, err := engine.NewRangeQuery(ctx, db, nil, query,
			time.UnixMilli(at-180_000), time.UnixMilli(at), 15*time.Second)
		pace.Check(err)
		result := evaluation.Exec(ctx)
		pace.Check(result.Err)
		_ = result.Value.String()
		evaluation.Close()
		scrape(symbols, turn)
		if turn%25 == 0 {
			pace.Check(db.Compact(ctx))
		}
	})
}

// Parses a page of metrics in two ways.
func scrape(symbols *labels.SymbolTable, turn int) {
	page := "# TYPE a counter\n# HELP a text\n"
	for line := range 30 {
		page += fmt.Sprintf("a{x=\"%d\",y=\"z\"} %d\n", line, turn)
	}
	decoder := expfmt.NewDecoder(strings.NewReader(page), expfmt.NewFormat(expfmt.TypeTextPlain))
	var family dto.MetricFamily
	pace.Check(decoder.Decode(&family))
	parsed, err := textparse.New([]byte(page), "text/plain", symbols, textparse.ParserOptions{})
	pace.Check(err)
	var series labels.Labels
	for {
		entry, err := parsed.Next()
		if err != nil {
			return
		}
		if entry == textparse.EntrySeries {
			parsed.Labels(&series)
		}
	}
}
