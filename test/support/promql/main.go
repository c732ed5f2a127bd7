// Answers queries of Prometheus over pages of metrics, as Prometheus would after it has scraped them: its own parser of
// pages, its own parser of rules and its own engine, over a memory of samples. Reads one JSON from stdin, writes one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type question struct {
	Scrapes []struct {
		AtMs   int64             `json:"atMs"`
		Labels map[string]string `json:"labels"`
		Text   string            `json:"text"`
	} `json:"scrapes"`
	Queries []string `json:"queries"`
	// The text of a file of rules.
	Rules string `json:"rules"`
}

type answer struct {
	Query  string `json:"query"`
	Alert  string `json:"alert,omitempty"`
	Error  string `json:"error,omitempty"`
	Series int    `json:"series"`
}

type result struct {
	Queries []answer `json:"queries"`
	Alerts  []answer `json:"alerts"`
	Names   []string `json:"names"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	memory := memory{}
	var now time.Time
	for _, scrape := range asked.Scrapes {
		if err := memory.scrape([]byte(scrape.Text), scrape.Labels, scrape.AtMs); err != nil {
			return fmt.Errorf("page of %v: %w", scrape.Labels, err)
		}
		if at := time.UnixMilli(scrape.AtMs); at.After(now) {
			now = at
		}
	}
	parse := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, Parser: parse})
	found := result{Queries: []answer{}, Alerts: []answer{}, Names: memory.names()}
	for _, query := range asked.Queries {
		found.Queries = append(found.Queries, ask(engine, memory, query, now))
	}
	groups, problems := rulefmt.Parse([]byte(asked.Rules), false, model.UTF8Validation, parse, slog.Default())
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			one := ask(engine, memory, rule.Expr, now)
			one.Alert = rule.Alert
			found.Alerts = append(found.Alerts, one)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func ask(engine *promql.Engine, memory memory, text string, now time.Time) answer {
	query, err := engine.NewInstantQuery(context.Background(), memory, nil, text, now)
	if err != nil {
		return answer{Query: text, Error: err.Error()}
	}
	defer query.Close()
	got := query.Exec(context.Background())
	if got.Err != nil {
		return answer{Query: text, Error: got.Err.Error()}
	}
	switch value := got.Value.(type) {
	case promql.Vector:
		return answer{Query: text, Series: len(value)}
	default:
		return answer{Query: text, Series: 1}
	}
}

// All samples, by the labels of their series.
type memory map[string]*series

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func (m memory) scrape(text []byte, target map[string]string, atMs int64) error {
	page := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := page.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var own labels.Labels
		page.Labels(&own)
		_, _, value := page.Series()
		builder := labels.NewBuilder(own)
		for name, word := range target {
			builder.Set(name, word)
		}
		all := builder.Labels()
		key := all.String()
		if m[key] == nil {
			m[key] = &series{labels: all}
		}
		m[key].samples = append(m[key].samples, sample{atMs, value})
	}
}

func (m memory) names() []string {
	names := map[string]bool{}
	for _, one := range m {
		names[one.labels.Get(labels.MetricName)] = true
	}
	list := []string{}
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (m memory) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{m, mint, maxt}, nil
}

type querier struct {
	memory
	mint, maxt int64
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, one := range q.memory {
		if !matches(one.labels, matchers) {
			continue
		}
		var within []chunks.Sample
		for _, each := range one.samples {
			if each.T() >= q.mint && each.T() <= q.maxt {
				within = append(within, each)
			}
		}
		if len(within) > 0 {
			found = append(found, storage.NewListSeries(one.labels, within))
		}
	}
	slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &set{found: found}
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(of.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) Close() error { return nil }

type set struct {
	found []storage.Series
	next  int
}

func (s *set) Next() bool                        { s.next++; return s.next <= len(s.found) }
func (s *set) At() storage.Series                { return s.found[s.next-1] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

type sample struct {
	atMs  int64
	value float64
}

func (s sample) T() int64                      { return s.atMs }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
